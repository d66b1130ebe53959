import type { MalformedRowError } from '../errors.js';

/** The value of a header field: text, or bytes if it is not UTF-8. */
export type HeaderValue = string | Uint8Array;

/** The header fields of a response: lower-case names with all their values. */
export type HeaderFields = Readonly<Record<string, readonly HeaderValue[]>>;

/** The metadata that every writer of the table stores. */
export interface Content {
  /** `s3_key`: the location of the body. */
  htmlPointer: string;
  /** When rendering began, in epoch milliseconds: `generated_at`, and `generated_ms` of our own rows. */
  generatedAtMs: number;
  /** The freshness window after `generatedAtMs`, in whole seconds, up to ten years. */
  revalidateSeconds: number;
  /** The entity tag with its quotes. */
  etag?: string;
  /** The ttl of the row, in epoch seconds; absent for none. It does not affect freshness. */
  ttlUnixSeconds?: number;
}

/** The current state of a page, or one of its generations. */
export interface Entry extends Content {
  /**
   * The entry was written by another service, with only the attributes of {@link Content}.
   * All members below are then empty, and `status` is 200.
   */
  foreign: boolean;
  /** The fence: it grows with every publish and rollback. */
  version: number;
  /** The unique id of the generation. */
  generationId: string;
  /** The cache key, for people and tools. */
  key: string;
  /** The name of the route that rendered the page, for `isr serve`. */
  route: string;
  /** The HTTP status of the page. */
  status: number;
  headers: HeaderFields;
  /** The hex SHA-256 of the body, and below its length in bytes. `isr serve` rejects a body that differs. */
  contentSha256: string;
  contentLength: number;
  /** The purge tags that the origin set. */
  tags: readonly string[];
  /** The stale window after the freshness window, in whole seconds. */
  staleSeconds: number;
  /** The purge sequence when rendering began. */
  purgeSeq: number;
  /** The sequence of the site's build that rendered the page, see {@link IsrMetaStore.build}; 0 if unknown. */
  build: number;
  /** The end of the pin, in epoch milliseconds; absent if the entry was not pinned. */
  pinnedUntilMs?: number;
  /** When a rollback last made this generation current, in epoch milliseconds. */
  assertedAtMs?: number;
  /** How long rendering took, in milliseconds; 0 if unknown. */
  renderMs: number;
  /** The age that the response already had at `generatedAtMs`, in seconds: the origin's `Age`. */
  initialAgeSeconds: number;
  /** The origin withdrew the page (gone or private): the entry counts as missing. */
  withdrawn?: true;
}

/**
 * A generation to publish. Omitted members are empty, but `generationId` is generated and
 * `status` is 200.
 */
export interface NextEntry extends Content {
  /** The hex SHA-256 of the body, and below its length in bytes. Readers reject a body that differs. */
  contentSha256: string;
  contentLength: number;
  generationId?: string;
  key?: string;
  route?: string;
  status?: number;
  headers?: HeaderFields;
  tags?: readonly string[];
  staleSeconds?: number;
  /** The purge {@link Sequence}, read after META was read under the lease and before rendering began. */
  purgeSeq?: number;
  build?: number;
  pinnedUntilMs?: number;
  assertedAtMs?: number;
  renderMs?: number;
  initialAgeSeconds?: number;
}

/** The purges that cover an entry, merged. */
export interface PurgeState {
  /** The highest sequence of a covering purge, 0 for none. */
  seq: number;
  /** The highest sequence of a covering hard purge, 0 for none. */
  hardSeq: number;
  /** The time of the newest purge, in epoch milliseconds. */
  atMs: number;
  /** The lifetime of purge marks, in seconds; 0 if nothing was ever purged. */
  markLifetimeSeconds: number;
  /** The sequence of the reader's build of the site, 0 if unknown: entries of older builds are stale. */
  build: number;
}

/** A LOCK row. It is a hint that may be outdated at once: only an acquisition decides which process holds the lease. */
export interface Lock {
  /** The holder's `leaseOwner`; empty if it set none, or the row is a backoff. */
  owner: string;
  /** When the lease becomes free, in epoch milliseconds. */
  expiresAtMs: number;
  /** The number of consecutive failures. */
  failures: number;
}

/** The state of the purge log. */
export interface Sequence {
  /** The sequence of the newest change, 0 for none. */
  seq: number;
  /** The lifetime of purge marks, in seconds; 0 for none. */
  markLifetimeSeconds: number;
}

/** The newest purge of a tag, a prefix, a tenant or the whole site. It covers all pages that it selects. */
export interface Mark {
  /** `tag`, `prefix`, `tenant`, `site`, or a kind that this version does not know. */
  kind: string;
  /** The tenant of the pages; empty for none, and for a site. */
  tenant: string;
  /** The tag or the prefix; empty for a tenant and a site. */
  value: string;
  /** The sequences of the newest purge and of the newest hard purge, 0 for none. */
  seq: number;
  hardSeq: number;
  /** The time of the newest purge, in epoch milliseconds. */
  atMs: number;
  /** From `expireAtMs` on, `expireSeq` counts as a hard purge; both are 0 for none. */
  expireSeq: number;
  expireAtMs: number;
}

/** The changes of the purge log at one sequence. */
export interface Change {
  seq: number;
  /** The pages that nodes must reload. */
  reload: readonly { tenant: string; key: string }[];
  /** The purge marks that were written: to merge into those that are known, as they may be older. */
  marks: readonly Mark[];
  /** Every process is asked to report when it has applied the change. */
  confirm: boolean;
  /** The error of a malformed row; `seq` is 0 if it could not be parsed either. */
  malformed?: MalformedRowError;
}

/** A page by its names, such as one that nodes must reload. */
export interface Target {
  tenant: string;
  key: string;
}

/** The record of a request with an idempotency key. */
export interface RequestRecord {
  key: string;
  /** The hex SHA-256 of its inputs. */
  requestHash: string;
  status: 'STARTED' | 'COMPLETED' | 'FAILED';
  /** When a STARTED request may be taken over, in epoch milliseconds; absent: now. */
  inProgressUntilMs?: number;
  /** The result of a COMPLETED request. */
  htmlPointer: string;
  generationId: string;
  /** The reason of a FAILED request. */
  failure: string;
}
