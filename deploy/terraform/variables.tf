# The variables are the parameters of the templates in deploy/cloudformation, with the same defaults.

variable "name" {
  type        = string
  default     = "isr"
  description = "Begins the names of all resources."
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,23}$", var.name))
    error_message = "name must have 2 to 24 lower-case letters, digits and hyphens, the first one a letter."
  }
}

# --- The load balancer

variable "vpc_id" {
  type = string
}

variable "load_balancer_subnets" {
  type        = list(string)
  description = "Public subnets in two availability zones or more."
}

variable "certificate_arn" {
  type        = string
  description = "Certificate of ACM in this region, for the hosts of the site."
  validation {
    condition     = can(regex("^arn:aws[a-z-]*:acm:.+", var.certificate_arn))
    error_message = "certificate_arn must be the ARN of a certificate of ACM."
  }
}

variable "client_network" {
  type        = string
  default     = "0.0.0.0/0"
  description = "Who reaches the load balancer, if CloudFront is not in front of it."
}

variable "admin_network" {
  type        = string
  default     = ""
  description = "Private network, such as that of a VPN, that reaches the admin API of the servers, at port 9180, by HTTP with the token in Secrets Manager. Empty for none."
}

variable "route_table_ids" {
  type        = list(string)
  default     = []
  description = "Route tables of the servers' subnets, which get endpoints for DynamoDB and S3, free of charge."
}

variable "log_bucket" {
  type        = string
  default     = ""
  description = "Bucket for access logs of the load balancer; it must allow the service to write. Empty for none."
}

# --- CloudFront

variable "cloudfront" {
  type        = bool
  default     = false
  description = "Whether CloudFront is in front of the load balancer. Nothing else reaches that then."
}

variable "cloudfront_prefix_list" {
  type        = string
  default     = ""
  description = "Id of the prefix list com.amazonaws.global.cloudfront.origin-facing, with cloudfront."
  validation {
    condition     = var.cloudfront == (var.cloudfront_prefix_list != "")
    error_message = "cloudfront_prefix_list belongs to cloudfront = true."
  }
}

variable "origin_verify" {
  type        = string
  default     = ""
  sensitive   = true
  description = "Secret that CloudFront sends in X-Origin-Verify, of 32 letters and digits or more; requests without it get 403."
  validation {
    condition     = var.cloudfront ? can(regex("^[A-Za-z0-9]{32,128}$", var.origin_verify)) : var.origin_verify == ""
    error_message = "cloudfront = true needs origin_verify, of 32 to 128 letters and digits."
  }
}

variable "edge_certificate_arn" {
  type        = string
  default     = ""
  description = "Certificate of ACM in us-east-1, for the same hosts, with cloudfront."
  validation {
    condition     = var.cloudfront == can(regex("^arn:aws[a-z-]*:acm:us-east-1:.+", var.edge_certificate_arn))
    error_message = "cloudfront = true needs edge_certificate_arn, a certificate in us-east-1."
  }
}

variable "key_headers" {
  type        = list(string)
  default     = ["Host", "Authorization"]
  description = "Request headers on which pages depend (--vary), at most ten. Keep Host and Authorization."
}

variable "key_cookies" {
  type        = list(string)
  default     = ["*"]
  description = "Cookies on which pages depend, such as that of a session; * for every cookie, which is safe, but each visitor with a cookie gets copies of their own."
}

variable "tag_header" {
  type        = string
  default     = "Cache-Tag"
  description = "Response header of the site with the tags of a page."
}

variable "price_class" {
  type    = string
  default = "PriceClass_100"
}

variable "web_acl_arn" {
  type        = string
  default     = ""
  description = "Web ACL of AWS WAF. Empty for none."
}

variable "log_bucket_domain" {
  type        = string
  default     = ""
  description = "Domain of a bucket for access logs of CloudFront, like logs.s3.amazonaws.com. Empty for none."
}

# --- The servers

variable "image" {
  type        = string
  description = "Image of isr, by digest or version."
}

variable "repository_arn" {
  type        = string
  default     = ""
  description = "Repository of ECR that has the image. Empty for a public one."
}

variable "origin" {
  type        = string
  description = "URL of the site behind the cache, such as https://site.internal.example.com."
  validation {
    condition     = can(regex("^https?://.+", var.origin))
    error_message = "origin must be a URL."
  }
}

variable "host_names" {
  type        = list(string)
  description = "Hosts of the site."
}

variable "trusted_proxies" {
  type        = list(string)
  default     = ["private"]
  description = "Networks whose X-Forwarded-For is believed, that of the load balancer and those of CloudFront."
}

variable "task_subnets" {
  type        = list(string)
  description = "Subnets of the servers, in two availability zones or more."
}

variable "assign_public_ip" {
  type        = bool
  default     = false
  description = "true in public subnets, from which AWS cannot be reached otherwise."
}

variable "desired_count" {
  type        = number
  default     = 2
  description = "Servers, at least."
}

variable "max_count" {
  type        = number
  default     = 10
  description = "Servers, at most, with autoscaling by CPU and connections; the same as desired_count for none."
  validation {
    condition     = var.max_count >= var.desired_count
    error_message = "max_count must be at least desired_count."
  }
}

variable "connections_per_server" {
  type        = number
  default     = 2000
  description = "Connections of the load balancer for each server at which another one is started."
}

variable "workers" {
  type        = number
  default     = 0
  description = "Processes of isr worker. From one on the servers send the refreshing of stale pages to the queue."
}

variable "cpu" {
  type        = number
  default     = 512
  description = "Of a task; 1024 is a processor."
}

variable "memory" {
  type        = number
  default     = 1024
  description = "MiB of a task."
}

variable "cache_memory" {
  type        = string
  default     = "384MiB"
  description = "Pages in memory (--memory), at most half of memory."
}

variable "architecture" {
  type    = string
  default = "ARM64"
  validation {
    condition     = contains(["ARM64", "X86_64"], var.architecture)
    error_message = "architecture must be ARM64 or X86_64."
  }
}

variable "collection_schedule" {
  type        = string
  default     = "cron(0 4 ? * SUN *)"
  description = "When isr gc runs."
}

variable "log_retention" {
  type        = number
  default     = 30
  description = "Days."
}

# --- People

variable "operator_arns" {
  type        = list(string)
  default     = []
  description = "ARNs of users and roles that may assume the role of operators, which purges, rolls back and pins. Empty for no such role."
}

# --- Monitoring

variable "alarm_topic_arn" {
  type        = string
  default     = ""
  description = "SNS topic that alarms are sent to. Empty for one of this module, if alarm_email is set."
}

variable "alarm_email" {
  type        = string
  default     = ""
  description = "Address that alarms are sent to. AWS sends it a link to confirm. Empty for none."
}

variable "collector_image" {
  type        = string
  default     = ""
  description = "Image of the AWS Distro for OpenTelemetry, which brings metrics to CloudWatch. Empty for none."
}
