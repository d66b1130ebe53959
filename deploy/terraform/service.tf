# The servers, the workers and garbage collection, on ECS with Fargate.

resource "aws_cloudwatch_log_group" "log_group" {
  name              = "/isr/${var.name}"
  retention_in_days = var.log_retention
}

resource "aws_cloudwatch_log_group" "metrics_log_group" {
  count             = var.collector_image == "" ? 0 : 1
  name              = "/isr/${var.name}/metrics"
  retention_in_days = 1
}

resource "aws_ecs_cluster" "cluster" {
  name = var.name
  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

locals {
  stores = {
    ISR_TABLE  = aws_dynamodb_table.table.name
    ISR_BUCKET = aws_s3_bucket.bucket.id
    ISR_REGION = local.region
  }
  site = merge(local.stores, {
    ISR_ORIGIN        = var.origin
    ISR_HOST          = join(",", var.host_names)
    ISR_PUBLIC_SCHEME = "https"
  })
  server_environment = merge(local.site,
    {
      ISR_DATA          = "/var/lib/isr"
      ISR_LISTEN        = "0.0.0.0:8080"
      ISR_HEALTH        = "0.0.0.0:9181"
      ISR_DRAIN         = "12s"
      ISR_ADMIN         = "0.0.0.0:9180" # for admin_network
      ISR_PEER          = ":7946"
      ISR_TRUSTED_PROXY = join(",", var.trusted_proxies)
      ISR_MEMORY        = var.cache_memory
      ISR_PURGE_QUEUE   = aws_sqs_queue.purge_queue.url
    },
    var.workers > 0 ? { ISR_REGENERATE_QUEUE = aws_sqs_queue.regeneration_queue.url } : {},
    var.cloudfront ? { ISR_DOWNSTREAM = "edge=cloudfront:${local.distribution}?tags=on" } : {},
    var.collector_image == "" ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:4318" },
  )

  log_options = { for stream in ["server", "worker", "gc", "collector"] : stream => {
    logDriver = "awslogs"
    options = {
      awslogs-group         = aws_cloudwatch_log_group.log_group.name
      awslogs-region        = local.region
      awslogs-stream-prefix = stream
      mode                  = "non-blocking"
    }
  } }

  isr = { # what the containers of isr have in common
    name                   = "isr"
    image                  = var.image
    essential              = true
    user                   = "65532"
    readonlyRootFilesystem = true
    # More than ISR_DRAIN, --grace (35 s, --render-timeout and 5 s) and the last deliveries.
    stopTimeout = 60
  }
  data_mount = [{ sourceVolume = "data", containerPath = "/var/lib/isr" }]

  collector = {
    name                   = "collector"
    image                  = var.collector_image
    essential              = false
    readonlyRootFilesystem = true
    environment            = [{ name = "AOT_CONFIG_CONTENT", value = local.collector_configuration }]
    logConfiguration       = local.log_options.collector
  }
  collector_configuration = <<-YAML
    receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:4318"}}}}
    processors: {batch: {timeout: 60s}}
    exporters:
      awsemf:
        namespace: isr
        region: ${local.region}
        log_group_name: /isr/${var.name}/metrics
        dimension_rollup_option: NoDimensionRollup
        resource_to_telemetry_conversion: {enabled: true}
        metric_declarations:
          - dimensions: [[service.name]]
            metric_name_selectors:
              - ^isr_(store_up|origin_breaker_open|poll_lag_seconds|downstream_failing|render_queue_length|unpublished_pages)$
    service: {pipelines: {metrics: {receivers: [otlp], processors: [batch], exporters: [awsemf]}}}
  YAML
}

resource "aws_ecs_task_definition" "server_task" {
  family                   = "${var.name}-server"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory
  execution_role_arn       = aws_iam_role.execution_role.arn
  task_role_arn            = aws_iam_role.serving_role.arn
  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }
  volume {
    name = "data"
  }
  container_definitions = jsonencode(concat([
    merge(local.isr, {
      command      = ["serve"]
      mountPoints  = local.data_mount
      portMappings = [for port in [8080, 9181, 9180, 7946] : { containerPort = port, protocol = "tcp" }]
      environment  = [for name, value in local.server_environment : { name = name, value = value }]
      secrets = [
        { name = "ISR_ADMIN_TOKEN", valueFrom = aws_secretsmanager_secret.admin_token.arn },
        { name = "ISR_PEER_SECRET", valueFrom = aws_secretsmanager_secret.peer_secret.arn },
      ]
      logConfiguration = local.log_options.server
    })],
    var.collector_image == "" ? [] : [local.collector],
  ))
}

resource "aws_ecs_service" "server_service" {
  name                               = "${var.name}-server"
  cluster                            = aws_ecs_cluster.cluster.id
  task_definition                    = aws_ecs_task_definition.server_task.arn
  launch_type                        = "FARGATE"
  platform_version                   = "LATEST"
  desired_count                      = var.desired_count
  health_check_grace_period_seconds  = 30
  propagate_tags                     = "SERVICE"
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }
  network_configuration {
    assign_public_ip = var.assign_public_ip
    subnets          = var.task_subnets
    security_groups  = [aws_security_group.task_security_group.id]
  }
  load_balancer {
    container_name   = "isr"
    container_port   = 8080
    target_group_arn = aws_lb_target_group.target_group.arn
  }
  lifecycle {
    ignore_changes = [desired_count] # autoscaling changes it, within desired_count and max_count
  }
  depends_on = [aws_lb_listener.listener, aws_lb_listener_rule.verified_rule] # ECS needs a target group that is in use
}

resource "aws_appautoscaling_target" "scaling" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.cluster.name}/${aws_ecs_service.server_service.name}"
  min_capacity       = var.desired_count
  max_capacity       = var.max_count
}

# A server that ends loses its pages in memory: servers are stopped slowly.
resource "aws_appautoscaling_policy" "scaling_by_cpu" {
  name               = "${var.name}-cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.scaling.service_namespace
  scalable_dimension = aws_appautoscaling_target.scaling.scalable_dimension
  resource_id        = aws_appautoscaling_target.scaling.resource_id
  target_tracking_scaling_policy_configuration {
    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
    target_value       = 60
    scale_out_cooldown = 60
    scale_in_cooldown  = 600
  }
}

resource "aws_appautoscaling_policy" "scaling_by_connections" {
  name               = "${var.name}-connections"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.scaling.service_namespace
  scalable_dimension = aws_appautoscaling_target.scaling.scalable_dimension
  resource_id        = aws_appautoscaling_target.scaling.resource_id
  target_tracking_scaling_policy_configuration {
    customized_metric_specification {
      metrics {
        id          = "connections"
        return_data = false
        metric_stat {
          stat = "Sum"
          metric {
            namespace   = "AWS/ApplicationELB"
            metric_name = "ActiveConnectionCount"
            dimensions {
              name  = "LoadBalancer"
              value = aws_lb.load_balancer.arn_suffix
            }
          }
        }
      }
      metrics {
        id          = "servers"
        return_data = false
        metric_stat {
          stat = "Average"
          metric {
            namespace   = "ECS/ContainerInsights"
            metric_name = "RunningTaskCount"
            dimensions {
              name  = "ClusterName"
              value = aws_ecs_cluster.cluster.name
            }
            dimensions {
              name  = "ServiceName"
              value = aws_ecs_service.server_service.name
            }
          }
        }
      }
      metrics {
        id          = "each"
        expression  = "connections / servers"
        return_data = true
      }
    }
    target_value       = var.connections_per_server
    scale_out_cooldown = 60
    scale_in_cooldown  = 600
  }
}

resource "aws_ecs_task_definition" "worker_task" {
  count                    = var.workers > 0 ? 1 : 0
  family                   = "${var.name}-worker"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory
  execution_role_arn       = aws_iam_role.execution_role.arn
  task_role_arn            = aws_iam_role.worker_role[0].arn
  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }
  container_definitions = jsonencode([merge(local.isr, {
    command = ["worker"]
    environment = [for name, value in merge(local.site, {
      ISR_QUEUE = aws_sqs_queue.regeneration_queue.url
    }) : { name = name, value = value }]
    logConfiguration = local.log_options.worker
  })])
}

resource "aws_ecs_service" "worker_service" {
  count                              = var.workers > 0 ? 1 : 0
  name                               = "${var.name}-worker"
  cluster                            = aws_ecs_cluster.cluster.id
  task_definition                    = aws_ecs_task_definition.worker_task[0].arn
  launch_type                        = "FARGATE"
  platform_version                   = "LATEST"
  desired_count                      = var.workers
  propagate_tags                     = "SERVICE"
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }
  network_configuration {
    assign_public_ip = var.assign_public_ip
    subnets          = var.task_subnets
    security_groups  = [aws_security_group.task_security_group.id]
  }
}

resource "aws_ecs_task_definition" "collection_task" {
  family                   = "${var.name}-gc"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = 256
  memory                   = 1024
  execution_role_arn       = aws_iam_role.execution_role.arn
  task_role_arn            = aws_iam_role.collection_role.arn
  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }
  container_definitions = jsonencode([merge(local.isr, {
    command          = ["gc"]
    environment      = [for name, value in local.stores : { name = name, value = value }]
    logConfiguration = local.log_options.gc
  })])
}

resource "aws_scheduler_schedule" "collection_timer" {
  name                = "${var.name}-gc"
  description         = "Deletes stored bodies that no row refers to"
  schedule_expression = var.collection_schedule
  flexible_time_window {
    mode                      = "FLEXIBLE"
    maximum_window_in_minutes = 60
  }
  target {
    arn      = aws_ecs_cluster.cluster.arn
    role_arn = aws_iam_role.scheduler_role.arn
    retry_policy {
      maximum_retry_attempts       = 3
      maximum_event_age_in_seconds = 3600
    }
    ecs_parameters {
      task_definition_arn = aws_ecs_task_definition.collection_task.arn
      launch_type         = "FARGATE"
      task_count          = 1
      network_configuration {
        assign_public_ip = var.assign_public_ip
        subnets          = var.task_subnets
        security_groups  = [aws_security_group.task_security_group.id]
      }
    }
  }
}
