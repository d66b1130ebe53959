"""Names of rows: the sort keys of a page's rows, and the partition of the purge log."""

SK_LOCK, SK_META, SK_PURGE = "LOCK", "META", "PURGE"
VERSION_PREFIX, REQUEST_PREFIX = "VER#", "REQ#"
PK_LOG, SK_SEQUENCE, SK_BUILD, LOG_PREFIX, MARK_PREFIX = "PURGE", "SEQ", "BUILD", "LOG#", "MARK#"
