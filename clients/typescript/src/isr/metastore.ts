import type { RequestEnd } from './attempt.js';
import type { Change, Content, Entry, NextEntry, RequestRecord, Sequence } from './entry.js';
import type { State } from './freshness.js';
import type { Lease } from './lease.js';
import type { PageRecord } from './record.js';

/** A page, and a signal that ends a call early; the outcome of a write is settled all the same. */
export interface PageRef {
  cacheKey: string;
  signal?: AbortSignal | undefined;
}

/** A lease, by its token. A {@link Lease} is one. */
export interface LeaseRef extends PageRef {
  leaseToken: string;
}

/** What is asked of an acquisition. */
export interface Acquisition extends PageRef {
  /** The lifetime, in milliseconds; it is rounded up to whole seconds. */
  leaseDurationMs: number;
  /** Names the holder to people. Default: that of the store. */
  leaseOwner?: string;
  /**
   * What time it is, in epoch milliseconds, at most an hour from the store's clock: by
   * it another lease has ended or not, and the lifetime of this one begins; refreshes
   * and publishes go by the store's clock. Default: the store's clock.
   */
  nowMs?: number;
  /**
   * Carries out a request that is named so once, however often it is made, with
   * `inputs`, of which the hash is made, or `requestHash`.
   */
  idempotencyKey?: string;
  inputs?: unknown;
  requestHash?: string;
  /** How long the record of the request is kept, in seconds. Default: that of the store. */
  requestKeepSeconds?: number;
}

/** How a generation is published. */
export interface Publishing {
  /** Keeps the generation as a version of its own, until it is superseded and `supersededAtMs` has passed. */
  history?: boolean;
  /** How many versions are kept at least, the new one counted; older ones are forgotten now. Default: all, until their time. */
  keep?: number;
  /** When the version that was current before may be collected. Default: with the entry, but after a month at the latest. */
  supersededAtMs?: number;
  /** The generation has the content of the current entry: with history, its version takes the place of that one's. */
  unchanged?: boolean;
  /** Publishes even if the current entry is pinned. */
  unpin?: boolean;
  signal?: AbortSignal | undefined;
}

/** What is known of a generation beside what every writer says. */
export type Described = Omit<NextEntry, keyof Content>;

/** The call of the reference documents, and what may be said beyond it. */
export interface Commit extends LeaseRef, Content, Partial<Described>, Omit<Publishing, 'signal'> {
  /** For the application's own logs. */
  leaseOwner?: string;
}

/** What a person declares of a page. */
export interface Declaration extends PageRef {
  /** The page as it was read, which alone is changed. Default: whatever is there, also if another writer is there first. */
  record?: PageRecord;
  /** When DynamoDB may collect the row, in epoch seconds. Default: by the store's `metaTtlSeconds`. */
  ttlUnixSeconds?: number;
  /** When it may collect the version that was current. Default: with the entry, but after a month at the latest. */
  supersededAtMs?: number;
}

/** A rollback. */
export interface Rollback extends Declaration {
  /** The id of the generation that is to be current. Default: the one that was published last before the current. */
  to?: string;
  /**
   * Pins it until then; 0: not at all. Default: `FOREVER_MS`, a pin that does not end by
   * itself, since a generation that has expired would be regenerated for the next visitor.
   */
  pinnedUntilMs?: number;
  /** When it was declared. Default: now. */
  assertedAtMs?: number;
}

/** A pin. */
export interface Pin extends Declaration {
  /** Until when expiry by time is suspended, in epoch milliseconds; `FOREVER_MS` for a pin that does not end by itself. */
  untilMs: number;
}

/**
 * The metadata and the leases of cached pages, for frameworks. All methods may be
 * called at the same time. Keys are refused with InvalidKeyError, other arguments with
 * InvalidInputError, before anything is sent; DynamoDB's answers that are none of the
 * errors named here are TableNotFoundError, ThrottledError, TransactionConflictError,
 * InvalidQueryError, UnknownOutcomeError, or the SDK's own.
 */
export interface IsrMetaStore {
  /**
   * The current entry and what it is worth now; null if there is none, or none that is
   * valid. Of purges it knows those of this very page.
   */
  get(page: PageRef): Promise<(Entry & { state: State }) | null>;
  /** All that the store knows of a page, in one strongly consistent read. */
  read(page: PageRef): Promise<PageRecord>;

  /** The lease, or null if somebody else has it; see {@link acquireLease}. */
  tryAcquireLease(a: Acquisition): Promise<Lease | null>;
  /**
   * Takes the lease, and reads under it what there is of the page, and the purge
   * sequence. With an idempotency key the request is recorded as started in the same
   * transaction: refreshing keeps it in progress, a publish completes it.
   * @throws LeaseHeldError RequestCompletedError RequestInProgressError RequestMismatchError UnknownOutcomeError
   */
  acquireLease(a: Acquisition): Promise<Lease>;
  /**
   * Extends the lease by its duration, counted from now. Of another process's lease the
   * duration is to be given. The end of the lease is returned.
   * @throws LeaseLostError
   */
  refreshLease(lease: LeaseRef & { leaseDurationMs?: number }): Promise<{ leaseExpiresAtMs: number }>;
  /** Gives the lease up. One that is lost already is left alone: no error. */
  releaseLease(lease: LeaseRef): Promise<void>;
  /**
   * Turns the lease into one that nobody holds until the pause is over, in
   * milliseconds, and counts a failure: the fleet leaves the page alone for that long.
   */
  backOff(lease: LeaseRef, pauseMs: number): Promise<void>;
  /**
   * Frees the lease that a record shows, whoever has it.
   * @throws MovedError if it is another by now
   */
  breakLease(page: PageRef & { record: PageRecord }): Promise<void>;
  /**
   * Takes the lease, runs the work, extends the lease at a third of its lifetime
   * meanwhile, and releases it, unless it was published with or backed off from. The
   * signal is aborted, with a LeaseLostError as its reason, once the lease is lost. A
   * request that the work has neither published for nor ended is recorded as failed.
   * @throws what acquireLease throws; LeaseLostError if the lease was lost, whatever the work made of that, with the
   * work's own error among its causes (an AggregateError if there are several); else what the work throws
   */
  withLease<T>(a: Acquisition, work: (lease: Lease, signal: AbortSignal) => Promise<T>): Promise<T>;

  /**
   * The reference's call: {@link publish} of what the lease's token gives the right to,
   * over what META was when the lease was taken, or is now, if another process took it.
   * With `contentSha256` and `contentLength` the row says all that an entry can say.
   * Without, it says what the reference's rows say: to readers it is another service's.
   * @throws LeaseLostError MovedError PinnedError UnknownOutcomeError
   */
  commitGeneration(c: Commit): Promise<Entry>;
  /**
   * Makes a generation current and gives up the lease, in one transaction, and only if
   * the lease is still held and the entry is still exactly what the record shows.
   * Attributes that are none of an entry's survive. It returns the entry as readers
   * will find it. By default `purgeSeq` is that of the lease, and `key` its cache key.
   * @throws LeaseLostError MovedError PinnedError ConditionFailedError (the id was used before) UnknownOutcomeError
   */
  publish(lease: Lease, record: PageRecord, next: NextEntry, how?: Publishing): Promise<Entry>;

  /** The generations that are kept, the newest first; the current one is among them if it was published with history. */
  versions(page: PageRef): Promise<Entry[]>;
  /** Makes a kept generation current. @throws NoVersionError PurgedError MovedError UnknownOutcomeError */
  rollback(r: Rollback): Promise<Entry>;
  /** Keeps the current entry as it is. @throws NoVersionError PurgedError MovedError UnknownOutcomeError */
  pin(p: Pin): Promise<Entry>;
  /** Ends a pin. @throws NoVersionError MovedError UnknownOutcomeError */
  unpin(p: Declaration): Promise<Entry>;

  /** The record of a request, or null. It decides nothing: only an acquisition makes a claim. */
  request(r: PageRef & { idempotencyKey: string }): Promise<RequestRecord | null>;
  /**
   * Records what became of the request for which a lease was acquired, which may be
   * lost or released by then. Of a lease without a request, and of a request that
   * somebody else has taken over, it does nothing.
   */
  endRequest(lease: Lease, end: RequestEnd): Promise<void>;

  /** The state of the purge log, read strongly. @throws MalformedRowError */
  sequence(options?: { signal?: AbortSignal | undefined }): Promise<Sequence>;
  /** The changes after a sequence, in order, 200 at most, in one strongly consistent read. */
  changes(after: number, options?: { signal?: AbortSignal | undefined }): Promise<Change[]>;
}
