# The load balancer in front of the servers.

resource "aws_security_group" "load_balancer_security_group" {
  name_prefix = "${var.name}-balancer-"
  description = "Visitors, or CloudFront, to the load balancer of isr"
  vpc_id      = var.vpc_id
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "visitors" {
  security_group_id = aws_security_group.load_balancer_security_group.id
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  cidr_ipv4         = var.cloudfront ? null : var.client_network
  prefix_list_id    = var.cloudfront ? var.cloudfront_prefix_list : null
  description       = var.cloudfront ? "CloudFront" : "Visitors"
}

resource "aws_vpc_security_group_ingress_rule" "redirected" {
  count             = var.cloudfront ? 0 : 1
  security_group_id = aws_security_group.load_balancer_security_group.id
  ip_protocol       = "tcp"
  from_port         = 80
  to_port           = 80
  cidr_ipv4         = var.client_network
  description       = "Visitors that are redirected to https"
}

resource "aws_vpc_security_group_egress_rule" "servers" {
  for_each                     = local.server_ports
  security_group_id            = aws_security_group.load_balancer_security_group.id
  ip_protocol                  = "tcp"
  from_port                    = each.key
  to_port                      = each.key
  referenced_security_group_id = aws_security_group.task_security_group.id
  description                  = each.value
}

resource "aws_security_group" "task_security_group" {
  name_prefix = "${var.name}-tasks-"
  description = "The load balancer to the servers of isr, and these to AWS and the site"
  vpc_id      = var.vpc_id
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_egress_rule" "tasks" {
  security_group_id = aws_security_group.task_security_group.id
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
  description       = "AWS, and the site at any port"
}

resource "aws_vpc_security_group_ingress_rule" "servers" {
  for_each                     = local.server_ports
  security_group_id            = aws_security_group.task_security_group.id
  ip_protocol                  = "tcp"
  from_port                    = each.key
  to_port                      = each.key
  referenced_security_group_id = aws_security_group.load_balancer_security_group.id
  description                  = each.value
}

resource "aws_vpc_security_group_ingress_rule" "peers" {
  security_group_id            = aws_security_group.task_security_group.id
  ip_protocol                  = "tcp"
  from_port                    = 7946
  to_port                      = 7946
  referenced_security_group_id = aws_security_group.task_security_group.id
  description                  = "Servers to each other"
}

resource "aws_vpc_security_group_ingress_rule" "admins" {
  count             = var.admin_network == "" ? 0 : 1
  security_group_id = aws_security_group.task_security_group.id
  ip_protocol       = "tcp"
  from_port         = 9180
  to_port           = 9180
  cidr_ipv4         = var.admin_network
  description       = "Operators to the admin API"
}

# Without them the traffic to the table and the bucket passes, and pays for, the NAT gateway.
resource "aws_vpc_endpoint" "dynamo_endpoint" {
  count             = length(var.route_table_ids) > 0 ? 1 : 0
  vpc_id            = var.vpc_id
  vpc_endpoint_type = "Gateway"
  service_name      = "com.amazonaws.${local.region}.dynamodb"
  route_table_ids   = var.route_table_ids
}

resource "aws_vpc_endpoint" "bucket_endpoint" {
  count             = length(var.route_table_ids) > 0 ? 1 : 0
  vpc_id            = var.vpc_id
  vpc_endpoint_type = "Gateway"
  service_name      = "com.amazonaws.${local.region}.s3"
  route_table_ids   = var.route_table_ids
}

locals {
  server_ports = { "8080" = "Requests", "9181" = "Health checks" }
}

resource "aws_lb" "load_balancer" {
  name               = var.name
  load_balancer_type = "application"
  internal           = false
  subnets            = var.load_balancer_subnets
  security_groups    = [aws_security_group.load_balancer_security_group.id]
  # Less than the two minutes for which isr keeps idle connections, so that isr never closes one on which a
  # request is about to be sent.
  idle_timeout               = 60
  drop_invalid_header_fields = true
  preserve_host_header       = true
  enable_deletion_protection = true
  dynamic "access_logs" {
    for_each = var.log_bucket == "" ? [] : [var.log_bucket]
    content {
      bucket  = access_logs.value
      enabled = true
    }
  }
}

resource "aws_lb_target_group" "target_group" {
  name        = var.name
  vpc_id      = var.vpc_id
  target_type = "ip"
  protocol    = "HTTP"
  port        = 8080
  # A server that drains fails two checks, ten seconds, and serves for twelve (ISR_DRAIN).
  health_check {
    protocol            = "HTTP"
    port                = "9181"
    path                = "/readyz"
    interval            = 5
    timeout             = 4
    healthy_threshold   = 2
    unhealthy_threshold = 2
    matcher             = "200"
  }
  # A request takes 35 s at most: a render of 30 s (--render-timeout) and its response. ECS sends SIGTERM after
  # this delay.
  deregistration_delay          = 40
  load_balancing_algorithm_type = "least_outstanding_requests"
}

resource "aws_lb_listener" "listener" {
  load_balancer_arn = aws_lb.load_balancer.arn
  protocol          = "HTTPS"
  port              = 443
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn
  default_action {
    type             = var.cloudfront ? "fixed-response" : "forward"
    target_group_arn = var.cloudfront ? null : aws_lb_target_group.target_group.arn
    dynamic "fixed_response" {
      for_each = var.cloudfront ? [1] : []
      content {
        status_code  = "403"
        content_type = "text/plain"
        message_body = "Forbidden"
      }
    }
  }
}

resource "aws_lb_listener_rule" "verified_rule" {
  count        = var.cloudfront ? 1 : 0
  listener_arn = aws_lb_listener.listener.arn
  priority     = 1
  condition {
    http_header {
      http_header_name = "X-Origin-Verify"
      values           = [var.origin_verify]
    }
  }
  action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.target_group.arn
  }
}

resource "aws_lb_listener" "redirect_listener" {
  count             = var.cloudfront ? 0 : 1
  load_balancer_arn = aws_lb.load_balancer.arn
  protocol          = "HTTP"
  port              = 80
  default_action {
    type = "redirect"
    redirect {
      protocol    = "HTTPS"
      port        = "443"
      status_code = "HTTP_301"
    }
  }
}
