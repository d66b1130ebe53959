import type { Clock } from '../clock.js';
import { type Heartbeat, startHeartbeat } from '../heartbeat.js';
import type { Warn } from '../isr/backend.js';
import type { Lease } from '../isr/lease.js';
import type { IsrMetaStore } from '../isr/metastore.js';

/** A page that this process is making, under its lease. */
export interface Rendering {
  readonly cacheKey: string;
  readonly lease: Lease;
  readonly heartbeat: Heartbeat;
}

/** What renderings are given. */
export interface Renderings {
  store: IsrMetaStore;
  clock: Clock;
  leaseMs: number;
  renderMs: number;
  warn: Warn;
}

/** The pages that this process is making. Next says when one begins, by asking for it, and when it is done, but not when it failed. */
export class Running {
  readonly #of: Renderings;
  readonly #running = new Map<string, { rendering: Rendering; budget: AbortController }>();

  constructor(of: Renderings) {
    this.#of = of;
  }

  /** The rendering of a page that is under way here. */
  of(cacheKey: string): Rendering | undefined {
    return this.#running.get(cacheKey)?.rendering;
  }

  /**
   * The right to make a page, or undefined if another process has it. `again` says that
   * this process had it already: Next asks once for a page that it is about to make, so
   * that what was begun before has failed, or its result will find the lease gone on.
   */
  async take(cacheKey: string): Promise<{ rendering: Rendering; again: boolean } | undefined> {
    const known = this.#running.get(cacheKey);
    if (known) {
      this.#limit(known.rendering);
      return { rendering: known.rendering, again: true };
    }
    const lease = await this.acquire(cacheKey);
    if (!lease) return undefined;
    const rendering = { cacheKey, lease: lease.lease, heartbeat: this.#keep(lease.lease, lease.askedAt) };
    this.#limit(rendering);
    rendering.heartbeat.signal.addEventListener('abort', () => void this.end(rendering));
    return { rendering, again: false };
  }

  /** Takes the lease of a page, for whom it does not last long. */
  async acquire(cacheKey: string): Promise<{ lease: Lease; askedAt: number } | undefined> {
    const { store, clock, leaseMs } = this.#of;
    const askedAt = clock.elapsed();
    const lease = await store.tryAcquireLease({ cacheKey, leaseDurationMs: leaseMs });
    return lease ? { lease, askedAt } : undefined;
  }

  /** The lease is extended no more, and nothing is known of the rendering any more. Whoever calls this has done with the lease. */
  async end(rendering: Rendering): Promise<void> {
    const known = this.#running.get(rendering.cacheKey);
    if (known?.rendering === rendering) {
      this.#running.delete(rendering.cacheKey);
      known.budget.abort();
    }
    await rendering.heartbeat.stop();
  }

  /** Ends a rendering, and lets others make the page. */
  async giveUp(rendering: Rendering): Promise<void> {
    await this.end(rendering);
    await this.#of.store.releaseLease(rendering.lease);
  }

  /** Ends a rendering that failed: nobody makes the page until the pause is over. */
  async backOff(rendering: Rendering, pauseMs: number): Promise<void> {
    await this.end(rendering);
    await this.#of.store.backOff(rendering.lease, pauseMs);
  }

  #keep(lease: Lease, acquiredAt: number): Heartbeat {
    const { store, clock } = this.#of;
    return startHeartbeat({
      name: lease.pk,
      durationMs: lease.leaseDurationMs,
      acquiredAt,
      clock,
      refresh: (signal) => store.refreshLease({ cacheKey: lease.cacheKey, leaseToken: lease.leaseToken, signal }),
    });
  }

  /** From now on the rendering has so long, and no longer. */
  #limit(rendering: Rendering): void {
    this.#running.get(rendering.cacheKey)?.budget.abort();
    const budget = new AbortController();
    this.#running.set(rendering.cacheKey, { rendering, budget });
    void this.#of.clock.sleep(this.#of.renderMs, budget.signal).then(async (passed) => {
      if (!passed) return;
      this.#of.warn('a page was not finished in time, or failed: others may try', { cacheKey: rendering.cacheKey });
      await this.giveUp(rendering).catch((failure: unknown) => {
        this.#of.warn('a lease could not be released and is left to expire', { cacheKey: rendering.cacheKey, failure });
      });
    });
  }
}
