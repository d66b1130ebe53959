table.transact_write(
    [
        TransactPut(
            item=FaceTheoryCacheMetadata(
                pk=pk,
                sk="META",
                s3_key=s3_key,
                generated_at=now_unix,
                revalidate_seconds=revalidate_seconds,
                etag=etag,
                ttl=ttl,
            ),
        ),
        TransactDelete(
            pk=pk,
            sk="LOCK",
            condition_expression="#tok = :tok AND #exp > :now",
            expression_attribute_names={"#tok": "lease_token", "#exp": "lease_expires_at"},
            expression_attribute_values={":tok": lease_token, ":now": now_unix},
        ),
    ]
)
