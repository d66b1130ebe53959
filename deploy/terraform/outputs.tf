output "address" {
  value       = aws_lb.load_balancer.dns_name
  description = "DNS name of the load balancer."
}

output "domain" {
  value       = one(aws_cloudformation_stack.edge[*].outputs["Domain"])
  description = "DNS name of the distribution; null without cloudfront."
}

output "table" {
  value = aws_dynamodb_table.table.name
}

output "bucket" {
  value = aws_s3_bucket.bucket.id
}

output "purge_queue" {
  value       = aws_sqs_queue.purge_queue.url
  description = "URL of the queue that takes purge requests."
}

output "operator_policy" {
  value       = aws_iam_policy.operator_policy.arn
  description = "Policy for people who look at the stored pages."
}

output "operator_role" {
  value       = one(aws_iam_role.operator_role[*].arn)
  description = "Role for people who purge, roll back and pin; null without operator_arns."
}

output "admin_token" {
  value       = aws_secretsmanager_secret.admin_token.arn
  description = "Secret with the token of the admin API."
}
