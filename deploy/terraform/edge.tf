# CloudFront in front of the load balancer, by the template of CloudFormation: the provider's
# aws_cloudfront_distribution does not know cache tags (CacheTagConfig), by which purges are delivered.

resource "aws_cloudformation_stack" "edge" {
  count         = var.cloudfront ? 1 : 0
  name          = "${var.name}-edge"
  template_body = file("${path.module}/../cloudformation/edge.yaml")
  parameters = {
    Name               = var.name
    OriginDomain       = aws_lb.load_balancer.dns_name
    OriginVerify       = var.origin_verify
    HostNames          = join(",", var.host_names)
    EdgeCertificateArn = var.edge_certificate_arn
    KeyHeaders         = join(",", var.key_headers)
    KeyCookies         = join(",", var.key_cookies)
    TagHeader          = var.tag_header
    PriceClass         = var.price_class
    WebAclArn          = var.web_acl_arn
    LogBucketDomain    = var.log_bucket_domain
  }
}

locals {
  distribution = one(aws_cloudformation_stack.edge[*].outputs["Distribution"])
}
