import { floorSeconds } from '../clock.js';
import { InvalidInputError } from '../errors.js';
import type { Attempt } from './attempt.js';
import type { Backend } from './backend.js';
import { BOUNDS } from './names.js';
import type { PageRecord } from './record.js';

/**
 * The right to regenerate one page, proven by its token. The token stays the same
 * for the life of the lease, so that a refresh whose reply was lost can be repeated.
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
  /** The regenerations in a row that failed before; 0 if the reply to the acquisition was lost. */
  readonly failures: number;
  /** What there was of the page under the lease. */
  readonly record: PageRecord;
  /** The purge sequence, read after the record: what is rendered from now on is at that sequence. */
  readonly purgeSeq: number;
}

/** A lease as its store knows it. */
export class HeldLease implements Lease {
  readonly cacheKey: string;
  readonly pk: string;
  readonly leaseToken: string;
  readonly leaseDurationMs: number;
  /** Of LOCK and REQ# rows. */
  readonly owner: string;
  failures = 0;
  /** When the acquisition was begun, on the monotonic clock. */
  readonly acquiredAt: number;
  readonly #backend: Backend;
  readonly #aheadMs: number;
  #attempt: Attempt | undefined;
  /** Epoch seconds. */
  #expiresAt = 0;
  /** The end of the lease on the monotonic clock. */
  deadline = 0;
  #over = false;
  #given = false;
  /** How many calls are giving it up. */
  #leaving = 0;
  #seen: { record: PageRecord; purgeSeq: number } | undefined;

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

  /** The table that it is in. It is no field, so that whoever prints a lease does not print a client. */
  get backend(): Backend {
    return this.#backend;
  }

  get leaseExpiresAtMs(): number {
    return this.#expiresAt * 1000;
  }

  /** What time it is for the applicant, in epoch milliseconds, by which the acquisition is judged. */
  applicantNow(): number {
    return this.#backend.clock.now() + this.#aheadMs;
  }

  get record(): PageRecord {
    return this.#under().record;
  }

  get purgeSeq(): number {
    return this.#under().purgeSeq;
  }

  /** Notes what there was of the page under the lease. */
  saw(record: PageRecord, purgeSeq: number): void {
    this.#seen = { record, purgeSeq };
  }

  #under(): { record: PageRecord; purgeSeq: number } {
    if (!this.#seen) throw new InvalidInputError('the lease was taken by another process: read the page for it');
    return this.#seen;
  }

  /**
   * Notes an acknowledged acquisition or refresh, which was asked for at a moment of
   * the monotonic clock: before the request left, so that time on the way counts
   * against us.
   */
  granted(expiresAt: number, askedAt: number): void {
    this.#expiresAt = expiresAt;
    this.deadline = askedAt + this.leaseDurationMs;
  }

  /**
   * Neither clock has seen the end of the lease: the wall clock that others judge it
   * by, and the monotonic one, which no adjustment moves.
   */
  running(): boolean {
    const { clock } = this.#backend;
    return this.#expiresAt > floorSeconds(clock.now()) && this.deadline > clock.elapsed();
  }

  /**
   * The lease is gone for good: lost, released, backed off or published. A clock that
   * is set back, or a row that comes back from a backup, does not revive it here.
   */
  end(): void {
    this.#over = true;
  }

  get ended(): boolean {
    return this.#over;
  }

  /** The lease was published with, released or backed off from. */
  giveUp(): void {
    this.#over = true;
    this.#given = true;
  }

  /** Runs a call that gives the lease up, if it succeeds. */
  async leave<T>(call: () => Promise<T>): Promise<T> {
    this.#leaving++;
    try {
      return await call();
    } finally {
      this.#leaving--;
    }
  }

  /**
   * The lease is being given up, or was. What an extension finds now says nothing: the
   * row may be gone by our own doing, before its answer has come.
   */
  get yielded(): boolean {
    return this.#given || this.#leaving > 0;
  }

  /** The attempt at a request that the lease was acquired for, until that is ended. */
  get attempt(): Attempt | undefined {
    return this.#attempt;
  }

  for(attempt: Attempt): void {
    this.#attempt = attempt;
  }

  /** The request is not this lease's concern any more. */
  endRequest(): void {
    this.#attempt = undefined;
  }
}

/**
 * A requested lifetime, rounded up to whole seconds, in milliseconds.
 * @throws InvalidInputError unless it is positive, and ten years at most.
 */
export function leaseDuration(ms: number): number {
  if (typeof ms !== 'number' || !(ms > 0)) {
    throw new InvalidInputError(`leaseDurationMs is ${ms}: expected a number of milliseconds above 0`);
  }
  return Math.min(Math.ceil(ms / 1000), BOUNDS.interval) * 1000;
}
