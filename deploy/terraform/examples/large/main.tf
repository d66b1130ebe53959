# Six servers in private subnets and two workers, behind CloudFront, with metrics of isr and alarms by SNS.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100"
    }
  }
}

variable "image" {
  type = string
}

variable "origin" {
  type        = string
  description = "URL of the site."
}

variable "host_names" {
  type = list(string)
}

variable "vpc_id" {
  type = string
}

variable "public_subnets" {
  type = list(string)
}

variable "private_subnets" {
  type        = list(string)
  description = "Subnets with a way to AWS and the site: a NAT gateway, or endpoints for ECR, DynamoDB, S3, SQS and CloudWatch Logs."
}

variable "certificate_arn" {
  type = string
}

variable "edge_certificate_arn" {
  type = string
}

variable "origin_verify" {
  type      = string
  sensitive = true
}

variable "route_table_ids" {
  type        = list(string)
  default     = []
  description = "Route tables of the private subnets, which get endpoints for DynamoDB and S3."
}

variable "alarm_topic_arn" {
  type = string
}

variable "operator_arns" {
  type        = list(string)
  default     = []
  description = "Who may purge, roll back and pin."
}

variable "collector_image" {
  type    = string
  default = "public.ecr.aws/aws-observability/aws-otel-collector:v0.43.3"
}

data "aws_ec2_managed_prefix_list" "cloudfront" {
  name = "com.amazonaws.global.cloudfront.origin-facing"
}

module "isr" {
  source = "../.."

  vpc_id                 = var.vpc_id
  load_balancer_subnets  = var.public_subnets
  task_subnets           = var.private_subnets
  certificate_arn        = var.certificate_arn
  cloudfront             = true
  cloudfront_prefix_list = data.aws_ec2_managed_prefix_list.cloudfront.id
  origin_verify          = var.origin_verify
  edge_certificate_arn   = var.edge_certificate_arn
  image                  = var.image
  origin                 = var.origin
  host_names             = var.host_names
  trusted_proxies        = concat(["private"], [for entry in data.aws_ec2_managed_prefix_list.cloudfront.entries : entry.cidr])
  desired_count          = 6
  max_count              = 20
  workers                = 2
  cpu                    = 2048
  memory                 = 4096
  cache_memory           = "2GiB"
  route_table_ids        = var.route_table_ids
  operator_arns          = var.operator_arns
  alarm_topic_arn        = var.alarm_topic_arn
  collector_image        = var.collector_image
}

output "domain" {
  value = module.isr.domain
}

output "purge_queue" {
  value = module.isr.purge_queue
}
