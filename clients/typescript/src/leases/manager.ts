/**
 * LeaseManager: leases for jobs other than page rendering, such as a nightly import that
 * one of many processes runs. They live in the table of the pages or in a table of their
 * own, with the guarantees of page leases: at most one unexpired lease per key, and the
 * holder learns when it has lost it.
 *
 *     pk = JOB#<key>   sk = LOCK   lease_token, lease_expires_at, lease_owner, ttl
 *
 * A lease does not stop a frozen holder from writing elsewhere after it has expired: a
 * job's own writes should be conditional writes.
 */

import { hostname } from 'node:os';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { readFailure } from '../classify.js';
import { type Clock, clockOf } from '../clock.js';
import { InvalidInputError, InvalidKeyError, LeaseLostError } from '../errors.js';
import { acquire } from '../isr/acquire.js';
import { type Backend, detached, randomText, type Warn } from '../isr/backend.js';
import { HeldLease, leaseDuration } from '../isr/lease.js';
import { refresh, release } from '../isr/leaseupdate.js';
import { cancellable, checkOptions, type Hints, type Members } from '../options.js';
import { Calls, type RetryOptions } from '../retry.js';
import { formatValue } from '../value.js';
import { leaseLossOf } from './heartbeat.js';
import { LeaseRegistry } from './registry.js';

/** The row of a lease. */
export interface LeaseKey {
  pk: string;
  /** Only `LOCK`, the default. */
  sk?: string;
}

/** A lease as it was last acknowledged. It is immutable. */
export interface JobLease {
  readonly key: Required<LeaseKey>;
  /** Proves that the caller holds the lease. It stays the same for the life of the lease. */
  readonly token: string;
  /** In epoch seconds. */
  readonly expiresAt: number;
  /** The lifetime that the acquisition and each refresh grant, in whole seconds. */
  readonly leaseSeconds: number;
}

/** The lifetime of a lease. */
export interface LeaseTerm {
  /** In seconds, above 0; rounded up to whole seconds, and capped at ten years. */
  leaseSeconds: number;
  /** Cancels the call, or in `withLease` the job. */
  signal?: AbortSignal | undefined;
}

/** Options of a LeaseManager. Every member has a default. */
export interface LeaseManagerOptions extends RetryOptions {
  /**
   * The wall clock, in epoch milliseconds; each reading is checked. (TableTheory's takes
   * seconds.) Default: `Date.now`.
   */
  now?: () => number;
  /** Replaces all time sources, including `now`; for tests. */
  clock?: Clock;
  /** Returns an unguessable, unique text of at least 128 random bits. Default: 128 random bits in hex. */
  newToken?: () => string;
  /** Identifies this process in logs and errors; informational only. Default: host name and process id. */
  leaseOwner?: string;
  /** Called for lost replies and for extensions and releases that failed. Default: no-op. */
  warn?: Warn;
}

const managerOptions: Members<LeaseManagerOptions> = {
  now: true,
  clock: true,
  newToken: true,
  leaseOwner: true,
  warn: true,
  callTimeoutMs: true,
  retryDelayMs: true,
  random: true,
};

const termOptions: Members<LeaseTerm> = { ...cancellable, leaseSeconds: true };

const fixedNames = 'spec/schema.md fixes the attributes of a lease, which all languages share';

/** TableTheory's options of a LeaseManager. */
const replaced: Hints = {
  token: 'its name here is newToken',
  leaseToken: 'its name here is newToken',
  ttlBufferSeconds: 'leave it out: DynamoDB may delete the row an hour after the lease has expired',
  sendOptions: 'pass a signal to each call',
  pkAttr: fixedNames,
  skAttr: fixedNames,
  tokenAttr: fixedNames,
  expiresAtAttr: fixedNames,
  ttlAttr: fixedNames,
};

const jobPrefix = 'JOB#';
const lockSk = 'LOCK';

/** Maximum lengths of keys, in bytes of UTF-8. */
const maxJobKey = 1024;
const maxPk = 2048;

/**
 * A lease that a heartbeat extends every third of its lifetime until it is given back:
 *
 *     await using kept = await leases.hold('nightly-import', { leaseSeconds: 30 });
 */
export interface KeptLease extends AsyncDisposable {
  readonly lease: JobLease;
  /** Aborted with `term.signal`, or with a LeaseLostError as its reason when the lease is lost. */
  readonly signal: AbortSignal;
  /** Stops the heartbeat and releases the lease. It does not fail: what cannot be released expires. */
  release(): Promise<void>;
}

/**
 * Acquires and keeps leases. It is safe for concurrent use. `close`, or `await using`, gives
 * back all leases; a manager without leases holds no resources.
 */
export class LeaseManager implements AsyncDisposable {
  readonly #backend: Backend;
  readonly #owner: string;
  /** The state of the leases that this process acquired. An ended lease never becomes valid again. */
  readonly #held = new WeakMap<JobLease, HeldLease>();
  readonly #registry: LeaseRegistry;

  /**
   * @throws InvalidInputError if the client or the table name is missing, an option is
   * unknown, or the clock is not in milliseconds.
   */
  constructor(ddb: DynamoDBClient, tableName: string, options: LeaseManagerOptions = {}) {
    if (typeof ddb?.send !== 'function' || typeof tableName !== 'string' || tableName === '') {
      throw new InvalidInputError('a LeaseManager takes a DynamoDBClient and the name of a table');
    }
    checkOptions('LeaseManager', options, managerOptions, replaced);
    const clock = clockOf(options);
    const calls = new Calls(clock, options);
    const { newToken = randomText, warn = () => {} } = options;
    this.#backend = { ddb, tableName, clock, calls, settleTimeoutMs: calls.timeoutMs, newToken, warn };
    this.#registry = new LeaseRegistry(() => clock.elapsed());
    this.#owner = options.leaseOwner ?? `${hostname()}:${process.pid}`;
  }

  /** Returns the lease key of a partition, such as a page's. @throws InvalidKeyError */
  lockKey(pk: string, sk = lockSk): Required<LeaseKey> {
    return keyOf({ pk, sk });
  }

  /**
   * Acquires the lease of a job (text of 1 to 1,024 bytes) or of a partition. It does not
   * wait for a held lease. If a reply is lost, the outcome is settled before this returns.
   *
   * @throws LeaseHeldError if another process holds it, InvalidKeyError, InvalidInputError,
   * UnknownOutcomeError
   */
  async acquire(key: string | LeaseKey, term: LeaseTerm): Promise<JobLease> {
    const at = keyOf(key);
    checkOptions('acquire', term, termOptions);
    const duration = durationOf(term?.leaseSeconds);
    this.#registry.checkOpen();
    const acquirer = { cacheKey: at.pk, pk: at.pk, owner: this.#owner };
    const held = await this.#classified(at, acquire(this.#backend, term.signal, acquirer, duration));
    try {
      this.#registry.add(held);
    } catch (error) {
      await this.#finish(held); // the manager was closed during the request
      throw error;
    }
    return this.#lease(at, held);
  }

  /**
   * Extends a lease to `leaseSeconds` from now, by default the lifetime it was acquired
   * with. After an error other than LeaseLostError the outcome is unknown: call it again.
   *
   * @throws LeaseLostError if it expired or another process acquired it. It stays lost.
   */
  async refresh(lease: JobLease, term: Partial<LeaseTerm> = {}): Promise<JobLease> {
    const key = keyOf(lease?.key);
    const known = this.#known(lease);
    checkOptions('refresh', term, termOptions);
    const duration = durationOf(term.leaseSeconds ?? lease.leaseSeconds);
    if (known.ended) {
      throw new LeaseLostError(`the lease of ${key.pk} is lost: it was released; acquire it again`);
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
    if (held !== known && this.#registry.get(lease.token) !== undefined) this.#registry.add(held);
    return this.#lease(key, held);
  }

  /** Releases a lease. Releasing a lost lease is not an error. */
  async release(lease: JobLease, options: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    const key = keyOf(lease?.key);
    checkOptions('release', options, cancellable);
    await this.#classified(key, release(this.#known(lease), options.signal));
  }

  /**
   * Acquires a lease, runs the job while a heartbeat extends the lease every third of its
   * lifetime, and releases it. The job's signal is aborted with `term.signal`, or with a
   * LeaseLostError as its reason when the lease is lost.
   *
   * @throws the errors of `acquire` before the job starts; LeaseLostError, with the job's
   * error as its cause, if the lease was lost before the job ended, even if the job
   * ignored it; otherwise the job's own error.
   */
  async withLease<T>(
    key: string | LeaseKey,
    term: LeaseTerm,
    job: (lease: JobLease, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const kept = await this.hold(key, term);
    try {
      const done = await job(kept.lease, kept.signal);
      const lost = leaseLossOf(kept.signal);
      if (lost) throw lost;
      return done;
    } catch (error) {
      throw leaseLossOf(kept.signal, error) ?? error;
    } finally {
      await kept.release();
    }
  }

  /**
   * Acquires a lease and keeps it by a heartbeat until it is released, or disposed of by
   * `await using`.
   *
   * @throws the errors of `acquire`
   */
  async hold(key: string | LeaseKey, term: LeaseTerm): Promise<KeptLease> {
    const { clock } = this.#backend;
    const acquiredAt = clock.elapsed();
    const lease = await this.acquire(key, term);
    const held = this.#known(lease);
    const options = {
      name: lease.key.pk,
      durationMs: held.leaseDurationMs,
      acquiredAt,
      clock,
      refresh: (signal: AbortSignal) => this.#extend(held, signal),
    };
    const heartbeat = this.#registry.startHeartbeat(options, term.signal);
    const release = async () => {
      await heartbeat.stop();
      await this.#finish(held);
    };
    return { lease, signal: heartbeat.signal, release, [Symbol.asyncDispose]: release };
  }

  /**
   * Gives back all leases of this manager, stops its heartbeats and timers, and aborts the
   * signals of running jobs with a LeaseLostError. Further acquisitions are refused. It does
   * not fail: what cannot be released expires.
   */
  async close(): Promise<void> {
    await this.#registry.close((held) => this.#finish(held));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #extend(held: HeldLease, signal: AbortSignal): Promise<void> {
    try {
      await this.#classified({ pk: held.pk }, refresh(held, signal));
    } catch (failure) {
      this.#backend.warn('failed to extend a lease', { pk: held.pk, failure });
      throw failure;
    }
  }

  /** Releases a lease even if the caller's signal is aborted. If that fails, the lease expires. */
  async #finish(held: HeldLease): Promise<void> {
    if (held.ended) return;
    try {
      await detached(this.#backend.calls.timeoutMs, (signal) => release(held, signal));
    } catch (failure) {
      this.#backend.warn('failed to release a lease; it will expire', { pk: held.pk, failure });
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

  /** Returns the state of a lease; for another process's lease only the token is known. */
  #known(lease: JobLease): HeldLease {
    const known = this.#held.get(lease);
    if (known !== undefined) {
      return known;
    }
    if (typeof lease.token !== 'string' || lease.token === '') {
      throw new InvalidInputError(
        `the lease of ${keyOf(lease.key).pk} has no token; pass the lease that acquire returned`,
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

/** Returns the key of a job's or a partition's lease. */
function keyOf(key: string | LeaseKey): Required<LeaseKey> {
  if (typeof key === 'string') {
    return { pk: jobPrefix + checkText('the key of a lease', key, maxJobKey), sk: lockSk };
  }
  if (key?.sk !== undefined && key.sk !== lockSk) {
    throw new InvalidKeyError(`the sort key of a lease must be ${lockSk} (got ${formatValue(key.sk)})`);
  }
  return { pk: checkText('the partition key of a lease', key?.pk, maxPk), sk: lockSk };
}

function checkText(name: string, text: unknown, longest: number): string {
  if (typeof text !== 'string') {
    throw new InvalidInputError(`${name} must be a string (got ${formatValue(text)})`);
  }
  if (text === '' || !text.isWellFormed() || Buffer.byteLength(text) > longest) {
    throw new InvalidKeyError(`${name} must be well-formed text of 1 to ${longest} bytes (got ${formatValue(text)})`);
  }
  return text;
}

function durationOf(leaseSeconds: number): number {
  if (typeof leaseSeconds !== 'number' || !(leaseSeconds > 0)) {
    throw new InvalidInputError(`leaseSeconds must be a number above 0 (got ${formatValue(leaseSeconds)})`);
  }
  return leaseDuration(leaseSeconds * 1000);
}
