import type { RequestEnd } from './attempt.js';
import type { Change, Content, Entry, Mark, NextEntry, PurgeState, RequestRecord, Sequence } from './entry.js';
import type { State } from './freshness.js';
import type { Lease } from './lease.js';
import type { PurgeOptions, Receipt } from './purge.js';
import type { PurgeTarget } from './purgetarget.js';
import type { PageRecord } from './record.js';

/** A page, and a signal that cancels the call. The outcome of a cancelled write is still settled. */
export interface PageRef {
  cacheKey: string;
  signal?: AbortSignal | undefined;
}

/** A reference to a lease by its token. A {@link Lease} is one. */
export interface LeaseRef extends PageRef {
  leaseToken: string;
}

/** A lease as a refresh was last acknowledged. */
export interface RefreshedLease {
  readonly cacheKey: string;
  readonly leaseToken: string;
  /** When the lease ends, in epoch milliseconds. */
  readonly leaseExpiresAtMs: number;
  /** The lifetime that each refresh grants. */
  readonly leaseDurationMs: number;
}

/** A page and its tags, by which purges cover it. */
export interface Covered extends PageRef {
  tags?: readonly string[];
}

/** The arguments of an acquisition. */
export interface Acquisition extends PageRef {
  /** The lifetime in milliseconds, rounded up to whole seconds. */
  leaseDurationMs: number;
  /** Identifies the holder in logs and errors. Default: the store's `leaseOwner`. */
  leaseOwner?: string;
  /**
   * The current time in epoch milliseconds, at most an hour from the store's clock. It
   * decides whether another lease has expired, and when the lifetime of this one begins;
   * refreshes and publishes use the store's clock. Default: the store's clock.
   */
  nowMs?: number;
  /**
   * Makes the request idempotent: repetitions with this key are not executed again. It
   * needs either `inputs`, which are hashed, or `requestHash`.
   */
  idempotencyKey?: string;
  inputs?: unknown;
  requestHash?: string;
  /** How long the request record is kept, in seconds. Default: the store's `requestKeepSeconds`. */
  requestKeepSeconds?: number;
}

/** Options of a publish. */
export interface Publishing {
  /** Keeps the generation as a version until it is superseded and `supersededAtMs` has passed. */
  history?: boolean;
  /** How many of the newest versions to keep, including the new one; older ones are deleted now. Default: all, until they expire. */
  keep?: number;
  /** When the superseded version may be garbage collected. Default: with the entry, but after a month at the latest. */
  supersededAtMs?: number;
  /** The content is the current entry's: with history, the new version replaces the current version. */
  unchanged?: boolean;
  /** Publishes even if the current entry is pinned. */
  unpin?: boolean;
  signal?: AbortSignal | undefined;
}

/** The metadata of a generation beyond {@link Content}. */
export type Described = Omit<NextEntry, keyof Content>;

/** The arguments of the reference's `commitGeneration`, and optional metadata beyond them. */
export interface Commit extends LeaseRef, Content, Partial<Described>, Omit<Publishing, 'signal'> {
  /** Not stored; for the application's own logs. */
  leaseOwner?: string;
  /** The caller's current time in epoch milliseconds, at most an hour from the store's clock, which decides. */
  nowMs?: number;
}

/** The common arguments of rollback, pin and unpin. */
export interface Declaration extends PageRef {
  /** The page as it was read; the call fails if it has changed since. Default: the current state, with retries if another writer is faster. */
  record?: PageRecord;
  /** The ttl of the row, in epoch seconds. Default: from the store's `metaTtlSeconds`. */
  ttlUnixSeconds?: number;
  /** When the superseded version may be garbage collected. Default: with the entry, but after a month at the latest. */
  supersededAtMs?: number;
}

/** The arguments of a rollback. */
export interface Rollback extends Declaration {
  /** The id of the generation to make current. Default: the one published before the current one. */
  to?: string;
  /**
   * Pins the generation until then, in epoch milliseconds; 0 does not pin it. Default:
   * `FOREVER_MS`, since an expired generation would be regenerated for the next visitor.
   */
  pinnedUntilMs?: number;
  /** When the rollback was declared. Default: now. */
  assertedAtMs?: number;
}

/** The arguments of a pin. */
export interface Pin extends Declaration {
  /** The end of the pin, in epoch milliseconds; `FOREVER_MS` for a pin without end. */
  untilMs: number;
}

/**
 * The metadata and the leases of cached pages, for frameworks. All methods are safe for
 * concurrent use. Invalid keys throw InvalidKeyError and other invalid arguments
 * InvalidInputError before anything is sent. Besides the errors named below, methods throw
 * TableNotFoundError, ThrottledError, TransactionConflictError, InvalidQueryError,
 * UnknownOutcomeError, or the SDK's own errors.
 */
export interface IsrMetaStore {
  /**
   * Returns the current entry with its freshness, null if it is missing or malformed. Only
   * purges of this page are considered, not purges of its tags, tenant or site: see {@link covering}.
   */
  get(page: PageRef): Promise<(Entry & { state: State }) | null>;
  /** Reads entry, purge state and lease of a page in one strongly consistent query. */
  read(page: PageRef): Promise<PageRecord>;

  /** Like {@link acquireLease}, but returns null if another process holds the lease. */
  tryAcquireLease(a: Acquisition): Promise<Lease | null>;
  /**
   * Acquires the lease without waiting, then reads the page and the purge sequence under
   * it. With an idempotency key the same transaction records the request as STARTED: a
   * refresh keeps it in progress, a publish completes it.
   * @throws LeaseHeldError RequestCompletedError RequestInProgressError RequestMismatchError UnknownOutcomeError
   */
  acquireLease(a: Acquisition): Promise<Lease>;
  /**
   * Extends the lease to its duration from now and returns it with its new end. The lease of
   * another process needs `leaseDurationMs`.
   * @throws LeaseLostError
   */
  refreshLease(lease: LeaseRef & { leaseDurationMs?: number }): Promise<RefreshedLease>;
  /** Releases the lease. Releasing a lost lease is not an error. `leaseOwner` is for the application's own logs. */
  releaseLease(lease: LeaseRef & { leaseOwner?: string }): Promise<void>;
  /**
   * Puts the page into backoff after a failure: the lease has no holder and cannot be
   * acquired for `pauseMs` milliseconds, and the failure is counted.
   */
  backOff(lease: LeaseRef, pauseMs: number): Promise<void>;
  /**
   * Deletes the lease that a record shows, whichever process holds it.
   * @throws MovedError if the lease has changed hands since
   */
  breakLease(page: PageRef & { record: PageRecord }): Promise<void>;
  /**
   * Acquires the lease, runs the work while a heartbeat extends the lease every third of
   * its lifetime, and releases the lease unless the work published or backed off. The
   * signal is aborted with a LeaseLostError when the lease is lost. A request that the work
   * neither published nor ended is recorded as FAILED.
   * @throws the errors of acquireLease; LeaseLostError if the lease was lost, even if the work ignored it, with the
   * work's own error among its causes (an AggregateError if there are several); otherwise the work's error
   */
  withLease<T>(a: Acquisition, work: (lease: Lease, signal: AbortSignal) => Promise<T>): Promise<T>;
  /**
   * Gives back all leases that this store acquired, stops its heartbeats and timers, and
   * aborts the signals of running work with a LeaseLostError. Further acquisitions are
   * refused. It does not fail: what cannot be released expires.
   */
  close(): Promise<void>;

  /**
   * The reference's call: publishes with the lease's token, over META as it was when the
   * lease was acquired, or as it is now if another process acquired it. With
   * `contentSha256` and `contentLength` the row carries full metadata. Without them it has
   * the reference's attributes only, and readers treat it as another service's row.
   * @throws LeaseLostError MovedError PinnedError UnknownOutcomeError
   */
  commitGeneration(c: Commit): Promise<Entry>;
  /**
   * Makes a generation current and releases the lease in one transaction, on condition that
   * the lease is held and the entry is unchanged since `record` was read. Unknown attributes
   * survive. It returns the entry as readers will see it. `purgeSeq` and `key` default to
   * the lease's.
   * @throws LeaseLostError MovedError PinnedError ConditionFailedError (the id was used before) UnknownOutcomeError
   */
  publish(lease: Lease, record: PageRecord, next: NextEntry, how?: Publishing): Promise<Entry>;

  /** Lists the kept generations, newest first, including the current one if it was published with history. */
  versions(page: PageRef): Promise<Entry[]>;
  /** Makes a kept generation current. @throws NoVersionError PurgedError MovedError UnknownOutcomeError */
  rollback(r: Rollback): Promise<Entry>;
  /** Pins the current entry. @throws NoVersionError PurgedError MovedError UnknownOutcomeError */
  pin(p: Pin): Promise<Entry>;
  /** Unpins the current entry. @throws NoVersionError MovedError UnknownOutcomeError */
  unpin(p: Declaration): Promise<Entry>;

  /** Reads a request record, or null. It is informational: only an acquisition claims a request. */
  request(r: PageRef & { idempotencyKey: string }): Promise<RequestRecord | null>;
  /**
   * Records the result or the failure of the request that a lease was acquired for; the
   * lease itself may already be lost or released. It is a no-op without a request, or if
   * another process has taken the request over.
   */
  endRequest(lease: Lease, end: RequestEnd): Promise<void>;

  /**
   * Purges pages: all generations that 1 to 98 targets select and whose rendering began before.
   * One transaction purges all targets or none, whatever the number of pages; concurrent purges
   * share it. A purge that was sent is completed even if the signal is aborted.
   * @throws UnknownOutcomeError
   */
  purge(targets: readonly PurgeTarget[], options?: PurgeOptions): Promise<Receipt>;
  /**
   * Lists the purge marks of the table: the newest purge of each tag, prefix, tenant and site,
   * strongly consistent. Purges of single pages have none.
   * @throws MalformedRowError
   */
  marks(options?: { signal?: AbortSignal | undefined }): Promise<Mark[]>;
  /**
   * Merges the purge marks that cover a page with these tags, read strongly consistent. The
   * purge of the page itself is part of {@link PageRecord.purge}.
   * @throws MalformedRowError
   */
  covering(page: Covered): Promise<PurgeState>;

  /**
   * Returns the sequence at which a build of the site was deployed, and makes the build the
   * current one if it is not. A process that renders pages passes it as the `build` of what it
   * publishes, and of the {@link PurgeState} that it judges by: pages of older builds are stale.
   * @throws MalformedRowError UnknownOutcomeError
   */
  build(id: string, options?: { signal?: AbortSignal | undefined }): Promise<number>;

  /** Reads the purge sequence, strongly consistent. @throws MalformedRowError */
  sequence(options?: { signal?: AbortSignal | undefined }): Promise<Sequence>;
  /** Reads the changes after a sequence in order, at most 200, in one strongly consistent query. */
  changes(after: number, options?: { signal?: AbortSignal | undefined }): Promise<Change[]>;
}
