# Alarms and a dashboard.

locals {
  # Statistics, periods and numbers of periods are those that CloudWatch recommends for each service, where it
  # does ("Recommended alarms" in the user guide of CloudWatch). Missing data is no alarm: CloudWatch has none of
  # metrics that count what does not happen.
  alarms = {
    table-system-errors-Query = {
      description = "DynamoDB fails Query with errors of its own. Visitors are served from memory and by renders that are not stored. Look at the AWS Health Dashboard."
      namespace   = "AWS/DynamoDB"
      metric      = "SystemErrors"
      dimensions  = { TableName = aws_dynamodb_table.table.name, Operation = "Query" }
      statistic   = "Sum"
      threshold   = 0
      period      = 60
      periods     = 15
    }
    table-system-errors-PutItem = {
      description = "DynamoDB fails PutItem with errors of its own. Visitors are served from memory and by renders that are not stored. Look at the AWS Health Dashboard."
      namespace   = "AWS/DynamoDB"
      metric      = "SystemErrors"
      dimensions  = { TableName = aws_dynamodb_table.table.name, Operation = "PutItem" }
      statistic   = "Sum"
      threshold   = 0
      period      = 60
      periods     = 15
    }
    table-system-errors-TransactWriteItems = {
      description = "DynamoDB fails TransactWriteItems with errors of its own. Visitors are served from memory and by renders that are not stored. Look at the AWS Health Dashboard."
      namespace   = "AWS/DynamoDB"
      metric      = "SystemErrors"
      dimensions  = { TableName = aws_dynamodb_table.table.name, Operation = "TransactWriteItems" }
      statistic   = "Sum"
      threshold   = 0
      period      = 60
      periods     = 15
    }
    table-latency-Query = {
      description = "Query takes more than 100 ms on average; visitors wait 300 ms at most (--store-timeout)."
      namespace   = "AWS/DynamoDB"
      metric      = "SuccessfulRequestLatency"
      dimensions  = { TableName = aws_dynamodb_table.table.name, Operation = "Query" }
      statistic   = "Average"
      threshold   = 100
      period      = 60
      periods     = 10
    }
    table-latency-PutItem = {
      description = "PutItem takes more than 100 ms on average; visitors wait 300 ms at most (--store-timeout)."
      namespace   = "AWS/DynamoDB"
      metric      = "SuccessfulRequestLatency"
      dimensions  = { TableName = aws_dynamodb_table.table.name, Operation = "PutItem" }
      statistic   = "Average"
      threshold   = 100
      period      = 60
      periods     = 10
    }
    table-latency-TransactWriteItems = {
      description = "TransactWriteItems takes more than 100 ms on average; visitors wait 300 ms at most (--store-timeout)."
      namespace   = "AWS/DynamoDB"
      metric      = "SuccessfulRequestLatency"
      dimensions  = { TableName = aws_dynamodb_table.table.name, Operation = "TransactWriteItems" }
      statistic   = "Average"
      threshold   = 100
      period      = 60
      periods     = 10
    }
    table-read-throttles = {
      description = "DynamoDB throttles reads: of the whole table while it grows, or of one partition beyond 3,000 units a second. See docs/cost.md."
      namespace   = "AWS/DynamoDB"
      metric      = "ReadThrottleEvents"
      dimensions  = { TableName = aws_dynamodb_table.table.name }
      statistic   = "Sum"
      threshold   = 0
      period      = 60
      periods     = 5
    }
    table-write-throttles = {
      description = "DynamoDB throttles writes: of the whole table while it grows, or of one partition beyond 1,000 units a second. See docs/cost.md."
      namespace   = "AWS/DynamoDB"
      metric      = "WriteThrottleEvents"
      dimensions  = { TableName = aws_dynamodb_table.table.name }
      statistic   = "Sum"
      threshold   = 0
      period      = 60
      periods     = 5
    }
    account-user-errors = {
      description = "DynamoDB refuses requests of this account and region as invalid, of isr or of another program; failed conditions do not count."
      namespace   = "AWS/DynamoDB"
      metric      = "UserErrors"
      dimensions  = {}
      statistic   = "Sum"
      threshold   = 0
      period      = 60
      periods     = 10
    }
    bucket-errors = {
      description = "More than 5 % of the requests to the bucket fail with 5xx."
      namespace   = "AWS/S3"
      metric      = "5xxErrors"
      dimensions  = { BucketName = aws_s3_bucket.bucket.id, FilterId = "EntireBucket" }
      statistic   = "Average"
      threshold   = 0.05
      period      = 60
      periods     = 15
    }
    balancer-errors = {
      description = "The load balancer answers with 5xx itself: no server is healthy, or servers close connections."
      namespace   = "AWS/ApplicationELB"
      metric      = "HTTPCode_ELB_5XX_Count"
      dimensions  = { LoadBalancer = aws_lb.load_balancer.arn_suffix }
      statistic   = "Sum"
      threshold   = 10
      period      = 60
      periods     = 5
    }
    server-errors = {
      description = "isr answers with 5xx: the site fails, and there is no copy of the page. See docs/failures.md."
      namespace   = "AWS/ApplicationELB"
      metric      = "HTTPCode_Target_5XX_Count"
      dimensions  = { LoadBalancer = aws_lb.load_balancer.arn_suffix }
      statistic   = "Sum"
      threshold   = 10
      period      = 60
      periods     = 5
    }
    server-unhealthy = {
      description = "A server fails its health checks, for longer than a deployment takes."
      namespace   = "AWS/ApplicationELB"
      metric      = "UnHealthyHostCount"
      dimensions  = { TargetGroup = aws_lb_target_group.target_group.arn_suffix, LoadBalancer = aws_lb.load_balancer.arn_suffix }
      statistic   = "Maximum"
      threshold   = 0
      period      = 60
      periods     = 10
    }
    server-cpu = {
      description = "Servers need more than 80 % of their processors: raise DesiredCount or Cpu."
      namespace   = "AWS/ECS"
      metric      = "CPUUtilization"
      dimensions  = { ClusterName = var.name, ServiceName = "${var.name}-server" }
      statistic   = "Average"
      threshold   = 80
      period      = 60
      periods     = 5
    }
    server-memory = {
      description = "Servers need more than 90 % of their memory: raise Memory, or lower CacheMemory."
      namespace   = "AWS/ECS"
      metric      = "MemoryUtilization"
      dimensions  = { ClusterName = var.name, ServiceName = "${var.name}-server" }
      statistic   = "Average"
      threshold   = 90
      period      = 60
      periods     = 5
    }
    purges-age = {
      description = "Purges wait in the queue for more than a minute: no server reads it, or the table does not answer."
      namespace   = "AWS/SQS"
      metric      = "ApproximateAgeOfOldestMessage"
      dimensions  = { QueueName = "${var.name}-purges" }
      statistic   = "Maximum"
      threshold   = 60
      period      = 60
      periods     = 5
    }
    purges-dead = {
      description = "A purge was not valid, and waits in the dead-letter queue: its pages are still served. The log has the reason."
      namespace   = "AWS/SQS"
      metric      = "ApproximateNumberOfMessagesVisible"
      dimensions  = { QueueName = "${var.name}-purges-dead" }
      statistic   = "Maximum"
      threshold   = 0
      period      = 60
      periods     = 1
    }
    regeneration-age = {
      description = "Stale pages wait for longer than five minutes to be regenerated: too few workers, or a slow site."
      namespace   = "AWS/SQS"
      metric      = "ApproximateAgeOfOldestMessage"
      dimensions  = { QueueName = "${var.name}-regeneration.fifo" }
      statistic   = "Maximum"
      threshold   = 300
      period      = 60
      periods     = 15
    }
    regeneration-dead = {
      description = "Pages could not be regenerated in five attempts; visitors get the stale ones. The log of the workers has the reason."
      namespace   = "AWS/SQS"
      metric      = "ApproximateNumberOfMessagesVisible"
      dimensions  = { QueueName = "${var.name}-regeneration-dead.fifo" }
      statistic   = "Maximum"
      threshold   = 0
      period      = 60
      periods     = 1
    }
    gc-failed = {
      description = "EventBridge Scheduler could not start isr gc, or another schedule of its group."
      namespace   = "AWS/Scheduler"
      metric      = "TargetErrorCount"
      dimensions  = { ScheduleGroup = "default" }
      statistic   = "Sum"
      threshold   = 0
      period      = 300
      periods     = 1
    }
  }

  # Of metrics of isr, which a collector brings to CloudWatch.
  own_alarms = {
    store-down = {
      description = "A server does without the table or the bucket (isr_store_up). See docs/failures.md."
      namespace   = "isr"
      metric      = "isr_store_up"
      dimensions  = { "service.name" = "isr" }
      comparison  = "LessThanThreshold"
      statistic   = "Minimum"
      threshold   = 1
      period      = 60
      periods     = 3
    }
    origin-down = {
      description = "The circuit breaker of the site is open: pages without a copy get 503."
      namespace   = "isr"
      metric      = "isr_origin_breaker_open"
      dimensions  = { "service.name" = "isr" }
      statistic   = "Maximum"
      threshold   = 0
      period      = 60
      periods     = 5
    }
    poll-lag = {
      description = "A server has not read the log of purges for ten seconds."
      namespace   = "isr"
      metric      = "isr_poll_lag_seconds"
      dimensions  = { "service.name" = "isr" }
      statistic   = "Maximum"
      threshold   = 10
      period      = 60
      periods     = 5
    }
    downstream-failing = {
      description = "Purges are not delivered to CloudFront: isr outbox shows the reason."
      namespace   = "isr"
      metric      = "isr_downstream_failing"
      dimensions  = { "service.name" = "isr" }
      statistic   = "Maximum"
      threshold   = 0
      period      = 60
      periods     = 15
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "alarms" {
  for_each            = merge(local.alarms, { for name, alarm in local.own_alarms : name => alarm if var.collector_image != "" })
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = each.value.statistic
  threshold           = each.value.threshold
  comparison_operator = lookup(each.value, "comparison", "GreaterThanThreshold")
  period              = each.value.period
  evaluation_periods  = each.value.periods
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_topics
  ok_actions          = local.alarm_topics
}

resource "aws_sns_topic" "alarm_topic" {
  count = var.alarm_email != "" && var.alarm_topic_arn == "" ? 1 : 0
  name  = "${var.name}-alarms"
}

resource "aws_sns_topic_subscription" "alarm_subscription" {
  count     = var.alarm_email == "" ? 0 : 1
  topic_arn = local.alarm_topics[0]
  protocol  = "email"
  endpoint  = var.alarm_email
}

locals {
  alarm_topics = var.alarm_topic_arn == "" ? aws_sns_topic.alarm_topic[*].arn : [var.alarm_topic_arn]
}

resource "aws_cloudwatch_dashboard" "dashboard" {
  dashboard_name = var.name
  dashboard_body = <<-JSON
    {"widgets": [
      {"type": "metric", "x": 0, "y": 0, "width": 8, "height": 6, "properties": {"title": "Requests", "region": "${local.region}", "stat": "Sum", "period": 60, "view": "timeSeries", "metrics": [["AWS/ApplicationELB", "RequestCount", "LoadBalancer", "${aws_lb.load_balancer.arn_suffix}"], [".", "HTTPCode_Target_5XX_Count", ".", "."], [".", "HTTPCode_ELB_5XX_Count", ".", "."]]}},
      {"type": "metric", "x": 8, "y": 0, "width": 8, "height": 6, "properties": {"title": "Response time, s", "region": "${local.region}", "stat": "p50", "period": 60, "view": "timeSeries", "metrics": [["AWS/ApplicationELB", "TargetResponseTime", "LoadBalancer", "${aws_lb.load_balancer.arn_suffix}", {"stat": "p50"}], ["...", {"stat": "p99"}]]}},
      {"type": "metric", "x": 16, "y": 0, "width": 8, "height": 6, "properties": {"title": "Servers: CPU and memory, %", "region": "${local.region}", "stat": "Average", "period": 60, "view": "timeSeries", "metrics": [["AWS/ECS", "CPUUtilization", "ClusterName", "${var.name}", "ServiceName", "${var.name}-server"], [".", "MemoryUtilization", ".", ".", ".", "."]]}},
      {"type": "metric", "x": 0, "y": 6, "width": 8, "height": 6, "properties": {"title": "Table: units", "region": "${local.region}", "stat": "Sum", "period": 60, "view": "timeSeries", "metrics": [["AWS/DynamoDB", "ConsumedReadCapacityUnits", "TableName", "${aws_dynamodb_table.table.name}"], [".", "ConsumedWriteCapacityUnits", ".", "."]]}},
      {"type": "metric", "x": 8, "y": 6, "width": 8, "height": 6, "properties": {"title": "Table: latency, ms", "region": "${local.region}", "stat": "Average", "period": 60, "view": "timeSeries", "metrics": [["AWS/DynamoDB", "SuccessfulRequestLatency", "TableName", "${aws_dynamodb_table.table.name}", "Operation", "Query"], [".", ".", ".", ".", ".", "PutItem"], [".", ".", ".", ".", ".", "TransactWriteItems"]]}},
      {"type": "metric", "x": 16, "y": 6, "width": 8, "height": 6, "properties": {"title": "Table: throttles, failed conditions (leases that another server holds), rows deleted by TTL", "region": "${local.region}", "stat": "Sum", "period": 60, "view": "timeSeries", "metrics": [["AWS/DynamoDB", "ReadThrottleEvents", "TableName", "${aws_dynamodb_table.table.name}"], [".", "WriteThrottleEvents", ".", "."], [".", "ConditionalCheckFailedRequests", ".", "."], [".", "TransactionConflict", ".", "."], [".", "TimeToLiveDeletedItemCount", ".", "."]]}},
      {"type": "metric", "x": 0, "y": 12, "width": 8, "height": 6, "properties": {"title": "Bucket: requests", "region": "${local.region}", "stat": "Sum", "period": 60, "view": "timeSeries", "metrics": [["AWS/S3", "PutRequests", "BucketName", "${aws_s3_bucket.bucket.id}", "FilterId", "EntireBucket"], [".", "GetRequests", ".", ".", ".", "."], [".", "HeadRequests", ".", ".", ".", "."], [".", "4xxErrors", ".", ".", ".", "."], [".", "5xxErrors", ".", ".", ".", "."]]}},
      {"type": "metric", "x": 8, "y": 12, "width": 8, "height": 6, "properties": {"title": "Queues: age of the oldest message, s", "region": "${local.region}", "stat": "Maximum", "period": 60, "view": "timeSeries", "metrics": [["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", "${var.name}-purges"], ["...", "${var.name}-regeneration.fifo"]]}},
      {"type": "metric", "x": 16, "y": 12, "width": 8, "height": 6, "properties": {"title": "Queues: dead letters", "region": "${local.region}", "stat": "Maximum", "period": 60, "view": "timeSeries", "metrics": [["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${var.name}-purges-dead"], ["...", "${var.name}-regeneration-dead.fifo"]]}}
    ]}
  JSON
}
