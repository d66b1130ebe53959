import type { MalformedRowError } from '../errors.js';

/** The value of a header field: text, or bytes where they are no UTF-8. */
export type HeaderValue = string | Uint8Array;

/** Header fields of a response: names in lower case, with all of their values. */
export type HeaderFields = Readonly<Record<string, readonly HeaderValue[]>>;

/** What every writer of the table says of a page. */
export interface Content {
  /** `s3_key`: where the body is. */
  htmlPointer: string;
  /** `generated_at`: when rendering began, in epoch milliseconds, whole seconds. */
  generatedAtMs: number;
  /** The freshness window from then on, in whole seconds, up to ten years. */
  revalidateSeconds: number;
  /** The entity tag with its quotes. */
  etag?: string;
  /** When DynamoDB may collect the row, in epoch seconds; absent: never. It has no part in freshness. */
  ttlUnixSeconds?: number;
}

/** The current state of a page, or one of its generations. */
export interface Entry extends Content {
  /**
   * Another service wrote this, with the attributes of {@link Content} alone; all
   * that follows is then empty, and `status` 200.
   */
  foreign: boolean;
  /** Grows with every publish and rollback: the fence. */
  version: number;
  /** Names the generation, uniquely. */
  generationId: string;
  /** The text of the cache key, for people and tools. */
  key: string;
  /** The name of the route that rendered the page, for `isr serve`. */
  route: string;
  /** The HTTP status of the page. */
  status: number;
  headers: HeaderFields;
  /** The hex SHA-256 of the body, and its length in bytes. `isr serve` serves no other body. */
  contentSha256: string;
  contentLength: number;
  /** The purge tags that the origin gave. */
  tags: readonly string[];
  /** How long after the freshness window the page may still be served, in whole seconds. */
  staleSeconds: number;
  /** The purge sequence at which rendering began. */
  purgeSeq: number;
  /** Until when expiry by time is suspended, in epoch milliseconds; absent: not pinned. */
  pinnedUntilMs?: number;
  /** When a rollback last declared this generation current, in epoch milliseconds. */
  assertedAtMs?: number;
  /** How long rendering took, in milliseconds; 0 if that is not known. */
  renderMs: number;
  /** The origin said that the page is gone, or not to be shared any more: the entry counts as missing. */
  withdrawn?: true;
}

/**
 * A generation to publish. What is not given is empty, but for `generationId`,
 * which is then drawn, and `status`, which is then 200.
 */
export interface NextEntry extends Content {
  /** The hex SHA-256 of the body, and its length in bytes: readers refuse a body that differs. */
  contentSha256: string;
  contentLength: number;
  generationId?: string;
  key?: string;
  route?: string;
  status?: number;
  headers?: HeaderFields;
  tags?: readonly string[];
  staleSeconds?: number;
  /** See {@link Sequence}: read after META was read under the lease, and before rendering began. */
  purgeSeq?: number;
  pinnedUntilMs?: number;
  assertedAtMs?: number;
  renderMs?: number;
}

/** The newest of the purges that cover one entry. */
export interface Cover {
  /** The highest sequence of any covering purge, 0 without one. */
  seq: number;
  /** That of a hard one. */
  hardSeq: number;
  /** When the newest was made, in epoch milliseconds. */
  atMs: number;
  /** How long purge marks are kept, in seconds; 0 if nothing was ever purged. */
  markLifetimeSeconds: number;
}

/** A LOCK row: a hint, which may change at any time. Only an acquisition decides who holds the lease. */
export interface Lock {
  /** The name that the holder gave itself; empty if it gave none, or the row is a back-off. */
  owner: string;
  /** From when the lease is free, in epoch milliseconds. */
  expiresAtMs: number;
  /** How many regenerations failed in a row. */
  failures: number;
}

/** The state of the purge log. */
export interface Sequence {
  /** The number of the newest change, 0 if there never was one. */
  seq: number;
  /** How long purge marks are kept, in seconds; 0 if there are none. */
  markLifetimeSeconds: number;
}

/** One change of the log. */
export interface Change {
  seq: number;
  /** The pages that nodes are to read again. */
  reload: readonly { tenant: string; key: string }[];
  /** Why the row could not be read; `seq` is then 0 if it could not be told either. */
  malformed?: MalformedRowError;
}

/** How far a request with an idempotency key has come. */
export interface RequestRecord {
  key: string;
  /** The hex SHA-256 of its inputs. */
  requestHash: string;
  status: 'STARTED' | 'COMPLETED' | 'FAILED';
  /** When a started one may be taken over, in epoch milliseconds; absent: now. */
  inProgressUntilMs?: number;
  /** The result of a completed one. */
  htmlPointer: string;
  generationId: string;
  /** Why it failed. */
  failure: string;
}
