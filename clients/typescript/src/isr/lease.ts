import { floorSeconds } from '../clock.js';
import { InvalidInputError } from '../errors.js';
import type { Attempt } from './attempt.js';
import type { Backend } from './backend.js';
import { BOUNDS } from './names.js';
import type { PageRecord } from './record.js';

/**
 * The right to regenerate one page, proven by its token. The token stays the same for the
 * life of the lease, so that a refresh whose reply was lost can be retried.
 */
export interface Lease {
  readonly cacheKey: string;
  /** The partition of the page. */
  readonly pk: string;
  readonly leaseToken: string;
  /** When the lease ends, as last acknowledged, in epoch milliseconds. */
  readonly leaseExpiresAtMs: number;
  /** The lifetime that the acquisition and each refresh grant, in whole seconds. */
  readonly leaseDurationMs: number;
  /** The number of consecutive failures before this lease; 0 if the reply to the acquisition was lost. */
  readonly failures: number;
  /** The page as it was read under the lease. */
  readonly record: PageRecord;
  /** The purge sequence, read after the record: the sequence of a render that starts now. */
  readonly purgeSeq: number;
}

/** The store's view of a lease. */
export class HeldLease implements Lease {
  readonly cacheKey: string;
  readonly pk: string;
  readonly leaseToken: string;
  readonly leaseDurationMs: number;
  /** The `lease_owner` of LOCK and REQ# rows. */
  readonly owner: string;
  failures = 0;
  /** When the acquisition began, on the monotonic clock. */
  readonly acquiredAt: number;
  readonly #backend: Backend;
  readonly #aheadMs: number;
  #attempt: Attempt | undefined;
  /** Epoch seconds. */
  #expiresAt = 0;
  /** The end of the lease on the monotonic clock. */
  deadline = 0;
  #ended = false;
  #released = false;
  /** The number of calls in flight that release it. */
  #releasing = 0;
  #observed: { record: PageRecord; purgeSeq: number } | undefined;

  constructor(
    b: Backend,
    of: { cacheKey: string; pk: string; owner: string; aheadMs?: number },
    token: string,
    durationMs: number,
  ) {
    this.#backend = b;
    this.#aheadMs = of.aheadMs ?? 0;
    this.cacheKey = of.cacheKey;
    this.pk = of.pk;
    this.owner = of.owner;
    this.leaseToken = token;
    this.leaseDurationMs = durationMs;
    this.acquiredAt = b.clock.elapsed();
  }

  /** The backend. An accessor, so that printing a lease does not print the client. */
  get backend(): Backend {
    return this.#backend;
  }

  get leaseExpiresAtMs(): number {
    return this.#expiresAt * 1000;
  }

  /** The caller's current time, in epoch milliseconds, which the acquisition uses. */
  acquirerNow(): number {
    return this.#backend.clock.now() + this.#aheadMs;
  }

  get record(): PageRecord {
    return this.#observation().record;
  }

  get purgeSeq(): number {
    return this.#observation().purgeSeq;
  }

  /** Stores the page as it was read under the lease. */
  observed(record: PageRecord, purgeSeq: number): void {
    this.#observed = { record, purgeSeq };
  }

  #observation(): { record: PageRecord; purgeSeq: number } {
    if (!this.#observed)
      throw new InvalidInputError('the lease was acquired by another process: read the page instead');
    return this.#observed;
  }

  /**
   * Records an acknowledged acquisition or refresh. `askedAt` is monotonic and was taken
   * before the request was sent, so that network time counts against us.
   */
  granted(expiresAt: number, askedAt: number): void {
    this.#expiresAt = expiresAt;
    this.deadline = askedAt + this.leaseDurationMs;
  }

  /**
   * Reports whether the lease is unexpired by both clocks: the wall clock, which others use,
   * and the monotonic clock, which adjustments do not affect.
   */
  running(): boolean {
    const { clock } = this.#backend;
    return this.#expiresAt > floorSeconds(clock.now()) && this.deadline > clock.elapsed();
  }

  /**
   * Marks the lease as permanently ended: lost, released, backed off or published. A clock that
   * is set back, or a row restored from a backup, does not revive it.
   */
  end(): void {
    this.#ended = true;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Marks the lease as released: by a publish, a release or a backoff. */
  markReleased(): void {
    this.#ended = true;
    this.#released = true;
  }

  /** Runs a call that releases the lease if it succeeds. */
  async releasing<T>(call: () => Promise<T>): Promise<T> {
    this.#releasing++;
    try {
      return await call();
    } finally {
      this.#releasing--;
    }
  }

  /**
   * Reports whether the lease is being released or was. A failed extension then means
   * nothing: our own call may have deleted the row before its reply arrived.
   */
  get releasedOrReleasing(): boolean {
    return this.#released || this.#releasing > 0;
  }

  /** The attempt at the request that the lease was acquired for, until the request ends. */
  get attempt(): Attempt | undefined {
    return this.#attempt;
  }

  bind(attempt: Attempt): void {
    this.#attempt = attempt;
  }

  /** Detaches the request, which has ended or was taken over. */
  endRequest(): void {
    this.#attempt = undefined;
  }
}

/**
 * Normalizes a lifetime in milliseconds: rounded up to whole seconds, at most ten years.
 * @throws InvalidInputError unless it is positive.
 */
export function leaseDuration(ms: number): number {
  if (typeof ms !== 'number' || !(ms > 0)) {
    throw new InvalidInputError(`leaseDurationMs must be a number above 0 (got ${ms})`);
  }
  return Math.min(Math.ceil(ms / 1000), BOUNDS.interval) * 1000;
}
