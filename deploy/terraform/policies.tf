# What each kind of process calls. e2e/aws runs them behind a proxy that refuses every other call, and fails if
# one of these is not used.

resource "aws_iam_policy" "serving_policy" {
  name        = "${var.name}-serving"
  description = "What isr serve needs of the table, the bucket and the queues"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(local.storing_statements, [
      {
        Sid      = "Purges"
        Effect   = "Allow"
        Action   = local.consuming_actions
        Resource = aws_sqs_queue.purge_queue.arn
      },
      {
        Sid      = "Regenerations"
        Effect   = "Allow"
        Action   = ["sqs:SendMessage"]
        Resource = aws_sqs_queue.regeneration_queue.arn
      },
    ])
  })
}

resource "aws_iam_policy" "worker_policy" {
  name        = "${var.name}-worker"
  description = "What isr worker needs of the table, the bucket and the queue"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(local.storing_statements, [{
      Sid      = "Regenerations"
      Effect   = "Allow"
      Action   = local.consuming_actions
      Resource = aws_sqs_queue.regeneration_queue.arn
    }])
  })
}

resource "aws_iam_policy" "collection_policy" {
  name        = "${var.name}-gc"
  description = "What isr gc needs of the table and the bucket"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "Table"
        Effect = "Allow"
        Action = [
          "dynamodb:BatchGetItem",
          "dynamodb:DeleteItem",
          "dynamodb:DescribeTable",
          "dynamodb:DescribeTimeToLive",
          "dynamodb:GetItem",
          "dynamodb:PutItem",
          "dynamodb:Query",
          "dynamodb:Scan",
          "dynamodb:UpdateItem",
        ]
        Resource = aws_dynamodb_table.table.arn
      },
      {
        Sid      = "Bodies"
        Effect   = "Allow"
        Action   = ["s3:DeleteObject"]
        Resource = "${aws_s3_bucket.bucket.arn}/bodies/*"
      },
      local.listing_statement,
    ]
  })
}

resource "aws_iam_policy" "operator_policy" {
  name        = "${var.name}-operator"
  description = "For people who look - isr ls, get, versions, diff, outbox, doctor - and change nothing"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "Table"
        Effect = "Allow"
        Action = [
          "dynamodb:BatchGetItem",
          "dynamodb:DescribeTable",
          "dynamodb:DescribeTimeToLive",
          "dynamodb:GetItem",
          "dynamodb:Query",
          "dynamodb:Scan",
        ]
        Resource = aws_dynamodb_table.table.arn
      },
      {
        Sid      = "Bodies"
        Effect   = "Allow"
        Action   = ["s3:GetObject"]
        Resource = "${aws_s3_bucket.bucket.arn}/bodies/*"
      },
      local.listing_statement,
    ]
  })
}

resource "aws_iam_policy" "changes_policy" {
  name        = "${var.name}-operator-changes"
  description = "For operators, in addition - isr purge, rollback, pin, unpin and lease --release on the table"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "Table"
      Effect   = "Allow"
      Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
      Resource = aws_dynamodb_table.table.arn
    }]
  })
}

locals {
  # Of servers and workers, which render and store pages.
  storing_statements = [
    {
      Sid    = "Table"
      Effect = "Allow"
      Action = [
        "dynamodb:BatchGetItem",
        "dynamodb:ConditionCheckItem",
        "dynamodb:DeleteItem",
        "dynamodb:DescribeTable",
        "dynamodb:DescribeTimeToLive",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "dynamodb:UpdateItem",
      ]
      Resource = aws_dynamodb_table.table.arn
    },
    {
      Sid      = "Bodies"
      Effect   = "Allow"
      Action   = ["s3:GetObject", "s3:PutObject"]
      Resource = "${aws_s3_bucket.bucket.arn}/bodies/*"
    },
    {
      Sid      = "Check"
      Effect   = "Allow"
      Action   = ["s3:GetObject", "s3:PutObject"]
      Resource = "${aws_s3_bucket.bucket.arn}/isr-check"
    },
    local.listing_statement,
  ]

  # Without it S3 answers 403 for a body that does not exist.
  listing_statement = {
    Sid      = "Bucket"
    Effect   = "Allow"
    Action   = ["s3:ListBucket"]
    Resource = aws_s3_bucket.bucket.arn
  }

  consuming_actions = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
}
