# The table, the bucket and the queues. terraform destroy fails for a table that is protected, and for a bucket
# that is not empty.

resource "aws_dynamodb_table" "table" {
  name         = var.name
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "pk"
  range_key    = "sk"

  attribute {
    name = "pk"
    type = "S"
  }
  attribute {
    name = "sk"
    type = "S"
  }
  ttl {
    attribute_name = "ttl"
    enabled        = true
  }
  point_in_time_recovery {
    enabled = true
  }
  deletion_protection_enabled = true
  # Encrypted at rest with a key that DynamoDB owns, which costs nothing.
  server_side_encryption {
    enabled = false
  }
}

# Without a rule that expires objects by age: a page that does not change keeps its body. isr gc deletes
# those that no row refers to.
resource "aws_s3_bucket" "bucket" {
  bucket = "${var.name}-${local.account}-${local.region}"
}

resource "aws_s3_bucket_public_access_block" "bucket" {
  bucket                  = aws_s3_bucket.bucket.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "bucket" {
  bucket = aws_s3_bucket.bucket.id
  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "bucket" {
  bucket = aws_s3_bucket.bucket.id
  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "bucket" {
  bucket = aws_s3_bucket.bucket.id
  rule {
    id     = "incomplete-uploads"
    status = "Enabled"
    filter {}
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_metric" "bucket" {
  bucket = aws_s3_bucket.bucket.id
  name   = "EntireBucket"
}

resource "aws_s3_bucket_policy" "bucket_policy" {
  bucket = aws_s3_bucket.bucket.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OnlyByTLS"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [aws_s3_bucket.bucket.arn, "${aws_s3_bucket.bucket.arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
}

resource "aws_sqs_queue" "regeneration_queue" {
  name                       = "${var.name}-regeneration.fifo"
  fifo_queue                 = true
  deduplication_scope        = "messageGroup"
  fifo_throughput_limit      = "perMessageGroupId"
  visibility_timeout_seconds = 60
  receive_wait_time_seconds  = 20
  message_retention_seconds  = 3600
  sqs_managed_sse_enabled    = true
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.regeneration_dead_letters.arn
    maxReceiveCount     = 5
  })
}

resource "aws_sqs_queue" "regeneration_dead_letters" {
  name                      = "${var.name}-regeneration-dead.fifo"
  fifo_queue                = true
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
}

# Not FIFO: purges have no order, S3 and SNS send to standard queues, and a FIFO queue would drop the second
# of two equal purges within five minutes.
resource "aws_sqs_queue" "purge_queue" {
  name                       = "${var.name}-purges"
  visibility_timeout_seconds = 30
  receive_wait_time_seconds  = 20
  message_retention_seconds  = 345600
  sqs_managed_sse_enabled    = true
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.purge_dead_letters.arn
    maxReceiveCount     = 5
  })
}

resource "aws_sqs_queue" "purge_dead_letters" {
  name                      = "${var.name}-purges-dead"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
}

# Only ECS and operators read the secrets, which are not in the state of Terraform. Servers keep the ones that they have
# started with. To replace one: aws secretsmanager put-secret-value, and then new tasks.
resource "aws_secretsmanager_secret" "admin_token" {
  name        = "${var.name}/admin-token"
  description = "Token of the admin API of isr"
}

resource "aws_secretsmanager_secret" "peer_secret" {
  name        = "${var.name}/peer-secret"
  description = "Secret that the servers of isr share"
}

ephemeral "aws_secretsmanager_random_password" "generated" {
  for_each            = toset(["admin_token", "peer_secret"])
  password_length     = 64
  exclude_punctuation = true
}

resource "aws_secretsmanager_secret_version" "admin_token" {
  secret_id                = aws_secretsmanager_secret.admin_token.id
  secret_string_wo         = ephemeral.aws_secretsmanager_random_password.generated["admin_token"].random_password
  secret_string_wo_version = 1
}

resource "aws_secretsmanager_secret_version" "peer_secret" {
  secret_id                = aws_secretsmanager_secret.peer_secret.id
  secret_string_wo         = ephemeral.aws_secretsmanager_random_password.generated["peer_secret"].random_password
  secret_string_wo_version = 1
}
