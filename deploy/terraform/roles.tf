# The roles of the tasks, and of what starts them.

locals {
  trust = {
    for service in ["ecs-tasks", "scheduler"] : service => jsonencode({
      Version = "2012-10-17"
      Statement = [{
        Effect    = "Allow"
        Principal = { Service = "${service}.amazonaws.com" }
        Action    = "sts:AssumeRole"
        Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
      }]
    })
  }
}

resource "aws_iam_role" "execution_role" {
  name               = "${var.name}-execution-${local.region}"
  description        = "Of ECS, to start the tasks of isr"
  assume_role_policy = local.trust["ecs-tasks"]
}

resource "aws_iam_role_policy" "execution_logs" {
  name = "logs"
  role = aws_iam_role.execution_role.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "Logs"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
      Resource = "${aws_cloudwatch_log_group.log_group.arn}:*"
    }]
  })
}

resource "aws_iam_role_policy" "execution_secrets" {
  name = "secrets"
  role = aws_iam_role.execution_role.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "Secrets"
      Effect   = "Allow"
      Action   = "secretsmanager:GetSecretValue"
      Resource = [aws_secretsmanager_secret.admin_token.arn, aws_secretsmanager_secret.peer_secret.arn]
    }]
  })
}

resource "aws_iam_role_policy" "execution_image" {
  count = var.repository_arn == "" ? 0 : 1
  name  = "image"
  role  = aws_iam_role.execution_role.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Sid = "Token", Effect = "Allow", Action = "ecr:GetAuthorizationToken", Resource = "*" },
      {
        Sid      = "Image"
        Effect   = "Allow"
        Action   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        Resource = var.repository_arn
      },
    ]
  })
}

resource "aws_iam_role" "serving_role" {
  name               = "${var.name}-serving-${local.region}"
  description        = "Of isr serve"
  assume_role_policy = local.trust["ecs-tasks"]
}

resource "aws_iam_role_policy_attachment" "serving" {
  role       = aws_iam_role.serving_role.name
  policy_arn = aws_iam_policy.serving_policy.arn
}

resource "aws_iam_role_policy" "serving_invalidations" {
  count = var.cloudfront ? 1 : 0
  name  = "invalidations"
  role  = aws_iam_role.serving_role.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "Invalidations"
      Effect   = "Allow"
      Action   = "cloudfront:CreateInvalidation"
      Resource = "arn:${local.partition}:cloudfront::${local.account}:distribution/${local.distribution}"
    }]
  })
}

resource "aws_iam_role_policy" "serving_metrics" {
  count = var.collector_image == "" ? 0 : 1
  name  = "metrics"
  role  = aws_iam_role.serving_role.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "Metrics"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
      Resource = "${aws_cloudwatch_log_group.metrics_log_group[0].arn}:*"
    }]
  })
}

resource "aws_iam_role" "worker_role" {
  count              = var.workers > 0 ? 1 : 0
  name               = "${var.name}-worker-${local.region}"
  description        = "Of isr worker"
  assume_role_policy = local.trust["ecs-tasks"]
}

resource "aws_iam_role_policy_attachment" "worker" {
  count      = var.workers > 0 ? 1 : 0
  role       = aws_iam_role.worker_role[0].name
  policy_arn = aws_iam_policy.worker_policy.arn
}

resource "aws_iam_role" "collection_role" {
  name               = "${var.name}-gc-${local.region}"
  description        = "Of isr gc"
  assume_role_policy = local.trust["ecs-tasks"]
}

resource "aws_iam_role_policy_attachment" "collection" {
  role       = aws_iam_role.collection_role.name
  policy_arn = aws_iam_policy.collection_policy.arn
}

resource "aws_iam_role" "scheduler_role" {
  name               = "${var.name}-scheduler-${local.region}"
  description        = "Of EventBridge Scheduler, to run isr gc"
  assume_role_policy = local.trust["scheduler"]
}

resource "aws_iam_role_policy" "scheduler_run" {
  name = "run"
  role = aws_iam_role.scheduler_role.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "Run"
        Effect    = "Allow"
        Action    = "ecs:RunTask"
        Resource  = "arn:${local.partition}:ecs:${local.region}:${local.account}:task-definition/${var.name}-gc:*"
        Condition = { ArnEquals = { "ecs:cluster" = aws_ecs_cluster.cluster.arn } }
      },
      {
        Sid       = "Pass"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = [aws_iam_role.collection_role.arn, aws_iam_role.execution_role.arn]
        Condition = { StringEquals = { "iam:PassedToService" = "ecs-tasks.amazonaws.com" } }
      },
    ]
  })
}

# For people, by aws sts assume-role or a profile. The token opens the admin API, if admin_network lets them reach it.
resource "aws_iam_role" "operator_role" {
  count       = length(var.operator_arns) > 0 ? 1 : 0
  name        = "${var.name}-operator-${local.region}"
  description = "Of people who purge, roll back and pin pages of isr"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { AWS = var.operator_arns }, Action = "sts:AssumeRole" }]
  })
}

resource "aws_iam_role_policy_attachment" "operator" {
  for_each   = length(var.operator_arns) > 0 ? { reads = aws_iam_policy.operator_policy.arn, changes = aws_iam_policy.changes_policy.arn } : {}
  role       = aws_iam_role.operator_role[0].name
  policy_arn = each.value
}

resource "aws_iam_role_policy" "operator_api" {
  count = length(var.operator_arns) > 0 ? 1 : 0
  name  = "api"
  role  = aws_iam_role.operator_role[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "Token"
        Effect   = "Allow"
        Action   = "secretsmanager:GetSecretValue"
        Resource = aws_secretsmanager_secret.admin_token.arn
      },
      {
        Sid       = "Servers"
        Effect    = "Allow"
        Action    = ["ecs:DescribeTasks", "ecs:ListTasks"]
        Resource  = "*"
        Condition = { ArnEquals = { "ecs:cluster" = aws_ecs_cluster.cluster.arn } }
      },
    ]
  })
}
