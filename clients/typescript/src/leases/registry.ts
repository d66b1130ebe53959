/** The leases of one process: by token, with the heartbeats that extend them, until they are given back together. */

import { InvalidInputError, LeaseLostError } from '../errors.js';
import type { HeldLease } from '../isr/lease.js';
import { type Heartbeat, type HeartbeatOptions, startHeartbeat } from './heartbeat.js';

/** How long after its end a lease can still be looked up by its token, in milliseconds (monotonic). */
const retentionMs = 60_000;

/** How many old leases each new one examines. Two suffice to forget leases faster than they come. */
const examined = 2;

/** How many leases `close` releases at the same time. */
const releasedTogether = 16;

/** The leases that a process acquired and has not forgotten. */
export class LeaseRegistry {
  readonly #elapsed: () => number;
  readonly #leases = new Map<string, HeldLease>();
  readonly #heartbeats = new Set<AbortController>();
  #closed = false;

  /** `elapsed` is the monotonic clock, in milliseconds. */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
  }

  /** Throws InvalidInputError after `close`. */
  checkOpen(): void {
    if (this.#closed) {
      throw new InvalidInputError('it is closed; create another one to acquire leases');
    }
  }

  /**
   * Adds a lease, and forgets some that ended: a fixed amount of work, however many are held.
   * It throws like `checkOpen` if the registry was closed while the lease was acquired.
   */
  add(lease: HeldLease): void {
    this.checkOpen();
    for (let i = 0; i < examined; i++) {
      const [oldest] = this.#leases;
      if (oldest === undefined) break;
      const [token, old] = oldest;
      this.#leases.delete(token);
      const isLive = !old.ended && old.deadline >= this.#elapsed() - retentionMs;
      if (isLive) this.#leases.set(token, old); // to the end: it is examined again after all others
    }
    this.#leases.set(lease.leaseToken, lease);
  }

  /** Returns the lease with a token; undefined if it is unknown or forgotten. */
  get(token: string): HeldLease | undefined {
    return this.#leases.get(token);
  }

  /** Starts a heartbeat that `close` stops; see {@link startHeartbeat}. */
  startHeartbeat(options: HeartbeatOptions, outer?: AbortSignal): Heartbeat {
    const closing = new AbortController();
    const onAbort = () => closing.abort(outer?.reason);
    outer?.addEventListener('abort', onAbort);
    if (outer?.aborted) onAbort();
    const heartbeat = startHeartbeat(options, closing.signal);
    this.#heartbeats.add(closing);
    return {
      signal: heartbeat.signal,
      stop: async () => {
        this.#heartbeats.delete(closing);
        outer?.removeEventListener('abort', onAbort);
        await heartbeat.stop();
      },
    };
  }

  /**
   * Ends all heartbeats, whose signals are aborted with a LeaseLostError, and gives back all
   * leases by `release`, which must not reject. It may be called more than once.
   */
  async close(release: (lease: HeldLease) => Promise<void>): Promise<void> {
    this.#closed = true;
    for (const heartbeat of this.#heartbeats) {
      heartbeat.abort(new LeaseLostError('the lease was given back by close; stop'));
    }
    this.#heartbeats.clear();
    const held = [...this.#leases.values()].filter((lease) => !lease.ended);
    this.#leases.clear();
    for (let i = 0; i < held.length; i += releasedTogether) {
      await Promise.all(held.slice(i, i + releasedTogether).map(release));
    }
  }
}
