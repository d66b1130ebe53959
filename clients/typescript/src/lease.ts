/**
 * LeaseManager: leases for other jobs of a service, such as a nightly import that one
 * of many processes is to run. They are kept in the table of the pages, or in one of
 * their own, as the leases of pages are, with the same guarantees: at most one
 * unexpired lease per key, whose holder finds out when it has lost it.
 *
 *     pk = JOB#<key>   sk = LOCK   lease_token, lease_expires_at, lease_owner, ttl
 *
 * A lease does not stop a holder that was frozen from writing elsewhere after it has
 * expired: what a job writes should be made conditional as well.
 */

import { hostname } from 'node:os';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { readFailure } from './classify.js';
import { systemClock } from './clock.js';
import { InvalidInputError, InvalidKeyError, LeaseLostError } from './errors.js';
import { keepLease, lossOf } from './heartbeat.js';
import { acquire } from './isr/acquire.js';
import { type Backend, randomText, settling, type Warn } from './isr/backend.js';
import { refresh, release } from './isr/hold.js';
import { HeldLease, leaseDuration } from './isr/lease.js';
import { Calls, type RetryOptions } from './retry.js';
import { shown } from './value.js';

/** Where a lease is. */
export interface LeaseKey {
  pk: string;
  /** `LOCK`, which is the default. */
  sk?: string;
}

/** A lease as it was last acknowledged. It is never changed. */
export interface JobLease {
  readonly key: Required<LeaseKey>;
  /** Proves who holds the lease; unchanged for as long as it is held. */
  readonly token: string;
  /** When it ends, in epoch seconds. */
  readonly expiresAt: number;
  /** The lifetime that it was acquired for, in whole seconds. */
  readonly leaseSeconds: number;
}

/** How long a lease lasts. */
export interface LeaseTerm {
  /** In seconds, more than 0; rounded up to whole ones, and no more than ten years. */
  leaseSeconds: number;
  /** Ends the call; of `withLease`, the job. */
  signal?: AbortSignal | undefined;
}

/** Adjusts a manager; every member has a default. */
export interface LeaseManagerOptions extends RetryOptions {
  /** The wall clock, in epoch milliseconds. Default: `Date.now`. */
  now?: () => number;
  /** Makes a text that nobody can guess and that never returns, of at least 128 random bits. Default: 128 random bits. */
  newToken?: () => string;
  /** Names this process to people and to other holders. It decides nothing. Default: host name and process id. */
  leaseOwner?: string;
  /** Hears of lost replies, and of extensions and releases that failed. Default: nobody. */
  warn?: Warn;
}

const jobPrefix = 'JOB#';
const lockSk = 'LOCK';

/** Bounds of keys, in bytes of UTF-8. */
const maxJobKey = 1024;
const maxPk = 2048;

/** Gives leases. It holds no resources, may be shared, and need not be closed. */
export class LeaseManager {
  readonly #backend: Backend;
  readonly #owner: string;
  /** What this process knows of the leases that it acquired: one that is over does not come back. */
  readonly #held = new WeakMap<JobLease, HeldLease>();

  /** @throws InvalidInputError if there is no client or no table name. */
  constructor(ddb: DynamoDBClient, tableName: string, options: LeaseManagerOptions = {}) {
    if (typeof ddb?.send !== 'function' || typeof tableName !== 'string' || tableName === '') {
      throw new InvalidInputError('a LeaseManager takes a DynamoDBClient and the name of a table');
    }
    const clock = systemClock(options.now);
    const calls = new Calls(clock, options);
    const { newToken = randomText, warn = () => {} } = options;
    this.#backend = { ddb, tableName, clock, calls, settleTimeoutMs: calls.timeoutMs, newToken, warn };
    this.#owner = options.leaseOwner ?? `${hostname()}:${process.pid}`;
  }

  /** The key of the lease of a partition, such as that of a page. */
  lockKey(pk: string): Required<LeaseKey> {
    return { pk, sk: lockSk };
  }

  /**
   * Takes the lease of a job, text of 1 to 1,024 bytes, or of a partition. It does not
   * wait. A reply that was lost is settled before this returns.
   *
   * @throws LeaseHeldError if somebody else has it, InvalidKeyError, InvalidInputError,
   * UnknownOutcomeError
   */
  async acquire(key: string | LeaseKey, term: LeaseTerm): Promise<JobLease> {
    const at = keyOf(key);
    const duration = durationOf(term?.leaseSeconds);
    const who = { cacheKey: at.pk, pk: at.pk, owner: this.#owner };
    return this.#lease(at, await this.#classified(at, acquire(this.#backend, term.signal, who, duration)));
  }

  /**
   * Extends a lease, counted from now, by the time that it was acquired for, or by
   * `leaseSeconds`. An error other than LeaseLostError leaves open whether it was
   * extended; call it again.
   *
   * @throws LeaseLostError if it expired or was taken: it cannot come back.
   */
  async refresh(lease: JobLease, term: Partial<LeaseTerm> = {}): Promise<JobLease> {
    const key = keyOf(lease?.key);
    const known = this.#known(lease);
    const duration = durationOf(term.leaseSeconds ?? lease.leaseSeconds);
    if (known.ended) {
      throw new LeaseLostError(`the lease of ${key.pk} is lost: it was given up; acquire it again`);
    }
    const held = known.leaseDurationMs === duration ? known : this.#heldBy(key.pk, lease.token, duration);
    try {
      await this.#classified(key, refresh(held, term.signal));
    } catch (error) {
      if (error instanceof LeaseLostError) {
        known.end();
      }
      throw error;
    }
    return this.#lease(key, held);
  }

  /** Gives a lease up. One that is lost already is none of ours: no error. */
  async release(lease: JobLease, options: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    const key = keyOf(lease?.key);
    await this.#classified(key, release(this.#known(lease), options.signal));
  }

  /**
   * Acquires a lease, does the job, extending the lease at a third of its lifetime
   * meanwhile, and releases it. The job's signal is aborted with the one that was
   * given, and with a LeaseLostError as its reason once the lease is lost.
   *
   * @throws what `acquire` throws, if the job was not begun; a LeaseLostError, caused
   * by the job's error if there was one, if the lease was lost before the job ended,
   * whatever the job made of that; else what the job throws.
   */
  async withLease<T>(
    key: string | LeaseKey,
    term: LeaseTerm,
    job: (lease: JobLease, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { clock } = this.#backend;
    const acquiredAt = clock.elapsed();
    const lease = await this.acquire(key, term);
    const held = this.#known(lease);
    const keeping = {
      name: lease.key.pk,
      durationMs: held.leaseDurationMs,
      acquiredAt,
      clock,
      refresh: (signal: AbortSignal) => this.#extend(held, signal),
    };
    const heartbeat = keepLease(keeping, term.signal);
    try {
      const done = await job(lease, heartbeat.signal);
      const lost = lossOf(heartbeat.signal);
      if (lost) throw lost;
      return done;
    } catch (error) {
      throw lossOf(heartbeat.signal, error) ?? error;
    } finally {
      await heartbeat.stop();
      await this.#finish(held);
    }
  }

  async #extend(held: HeldLease, signal: AbortSignal): Promise<void> {
    try {
      await this.#classified({ pk: held.pk }, refresh(held, signal));
    } catch (failure) {
      this.#backend.warn('a lease could not be extended', { pk: held.pk, failure });
      throw failure;
    }
  }

  /** Releases a lease, whether or not the caller is still there. If that fails, it expires. */
  async #finish(held: HeldLease): Promise<void> {
    try {
      await settling(this.#backend.calls.timeoutMs, (signal) => release(held, signal));
    } catch (failure) {
      this.#backend.warn('a lease could not be released and is left to expire', { pk: held.pk, failure });
      held.end();
    }
  }

  #lease(key: Required<LeaseKey>, held: HeldLease): JobLease {
    const lease = Object.freeze({
      key: Object.freeze(key),
      token: held.leaseToken,
      expiresAt: held.leaseExpiresAtMs / 1000,
      leaseSeconds: held.leaseDurationMs / 1000,
    });
    this.#held.set(lease, held);
    return lease;
  }

  /** What is known of a lease; of another process's, its token. */
  #known(lease: JobLease): HeldLease {
    const known = this.#held.get(lease);
    if (known !== undefined) {
      return known;
    }
    if (typeof lease.token !== 'string' || lease.token === '') {
      throw new InvalidInputError(
        `the token of the lease of ${keyOf(lease.key).pk} is missing; give what acquire returned`,
      );
    }
    return this.#heldBy(keyOf(lease.key).pk, lease.token, durationOf(lease.leaseSeconds ?? 1));
  }

  #heldBy(pk: string, token: string, durationMs: number): HeldLease {
    return new HeldLease(this.#backend, { cacheKey: pk, pk, owner: this.#owner }, token, durationMs);
  }

  async #classified<T>(key: LeaseKey, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw readFailure(`the lease of ${key.pk} in table ${this.#backend.tableName}`, error);
    }
  }
}

/** The key of a job's lease, or that of a partition's. */
function keyOf(key: string | LeaseKey): Required<LeaseKey> {
  if (typeof key === 'string') {
    return { pk: jobPrefix + checkText('the key of a lease', key, maxJobKey), sk: lockSk };
  }
  if (key?.sk !== undefined && key.sk !== lockSk) {
    throw new InvalidKeyError(`a lease is in the row ${lockSk} of its partition, not in ${shown(key.sk)}`);
  }
  return { pk: checkText('the partition key of a lease', key?.pk, maxPk), sk: lockSk };
}

function checkText(name: string, text: unknown, longest: number): string {
  if (typeof text !== 'string') {
    throw new InvalidInputError(`${name} is text, not ${shown(text)}`);
  }
  if (text === '' || !text.isWellFormed() || Buffer.byteLength(text) > longest) {
    throw new InvalidKeyError(`${name} is text of 1 to ${longest} bytes, not ${shown(text)}`);
  }
  return text;
}

function durationOf(leaseSeconds: number): number {
  if (typeof leaseSeconds !== 'number' || !(leaseSeconds > 0)) {
    throw new InvalidInputError(`leaseSeconds: expected a number of seconds above 0, found ${shown(leaseSeconds)}`);
  }
  return leaseDuration(leaseSeconds * 1000);
}
