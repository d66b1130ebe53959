# One server, in the default VPC of the account, without CloudFront.

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

variable "certificate_arn" {
  type = string
}

variable "alarm_email" {
  type        = string
  default     = ""
  description = "Address that alarms are sent to."
}

data "aws_vpc" "default" {
  default = true
}

data "aws_subnets" "default" {
  filter {
    name   = "vpc-id"
    values = [data.aws_vpc.default.id]
  }
}

module "isr" {
  source = "../.."

  vpc_id                = data.aws_vpc.default.id
  load_balancer_subnets = data.aws_subnets.default.ids
  task_subnets          = data.aws_subnets.default.ids
  assign_public_ip      = true # the subnets are public, and have no NAT gateway
  certificate_arn       = var.certificate_arn
  image                 = var.image
  origin                = var.origin
  host_names            = var.host_names
  desired_count         = 1
  cpu                   = 256
  memory                = 512
  cache_memory          = "192MiB"
  alarm_email           = var.alarm_email
}

output "address" {
  value = module.isr.address
}

output "purge_queue" {
  value = module.isr.purge_queue
}
