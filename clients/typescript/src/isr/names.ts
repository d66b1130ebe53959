/** The sort keys of a page's rows, of the purge sequence and of the current build. */
export const SK = { lock: 'LOCK', meta: 'META', purge: 'PURGE', sequence: 'SEQ', build: 'BUILD' } as const;

/** Sort key prefixes. */
export const PREFIX = { version: 'VER#', request: 'REQ#', log: 'LOG#', mark: 'MARK#' } as const;

/** The partition of the purge sequence and its log. */
export const PURGE_LOG_PK = 'PURGE';

/** The bounds of stored values. */
export const BOUNDS = {
  /** The last second of the year 9999, in epoch seconds: the end of a pin without end. */
  moment: 253_402_300_799,
  /** The longest stored interval: ten years, in seconds. */
  interval: 10 * 365 * 24 * 3600,
  /** The largest sequence, version or length: the largest exact JavaScript integer. */
  count: Number.MAX_SAFE_INTEGER,
  minStatus: 100,
  maxStatus: 999,
} as const;

/**
 * How far ahead the end of a lease or of a request in progress may lie, in seconds: the
 * longest duration plus a day of clock skew. A later end, such as one in milliseconds, is
 * invalid and ignored.
 */
export const MAX_LEASE_SECONDS = BOUNDS.interval + 24 * 3600;

/** The end of a pin without end, in epoch milliseconds. */
export const FOREVER_MS = BOUNDS.moment * 1000;
