/** Sort keys of a page's rows, and where the purge sequence and its log are. */
export const SK = { lock: 'LOCK', meta: 'META', purge: 'PURGE', sequence: 'SEQ' } as const;

/** Beginnings of sort keys. */
export const PREFIX = { version: 'VER#', request: 'REQ#', log: 'LOG#' } as const;

/** The partition of the purge sequence and its log. */
export const PURGE_LOG_PK = 'PURGE';

/** Bounds of what a row may say. */
export const BOUNDS = {
  /** The last second of the year 9999, in epoch seconds: "never" of a pin. */
  moment: 253_402_300_799,
  /** Every stored interval: ten years, in seconds. */
  interval: 10 * 365 * 24 * 3600,
  /** Sequences, versions and lengths: what a JavaScript number says exactly. */
  count: Number.MAX_SAFE_INTEGER,
  minStatus: 100,
  maxStatus: 999,
} as const;

/**
 * The end of a lease, or of a request that is in progress, lies at most so far ahead, in
 * seconds: the longest duration, and a day for clocks that differ. An end beyond that,
 * such as one in milliseconds, is none.
 */
export const LONGEST_LEASE = BOUNDS.interval + 24 * 3600;

/** The moment, in epoch milliseconds, that stands for "for ever" in a pin. */
export const FOREVER_MS = BOUNDS.moment * 1000;
