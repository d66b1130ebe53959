import type { Clock } from '../clock.js';
import type { Warn } from '../isr/backend.js';
import type { Lease } from '../isr/lease.js';
import type { IsrMetaStore } from '../isr/metastore.js';
import { type Heartbeat, startHeartbeat } from '../leases/heartbeat.js';

/** A page that this process is rendering, with its lease. */
export interface Rendering {
  readonly cacheKey: string;
  readonly lease: Lease;
  readonly heartbeat: Heartbeat;
}

/** The dependencies and limits of renderings. */
export interface RenderingOptions {
  store: IsrMetaStore;
  clock: Clock;
  leaseMs: number;
  renderMs: number;
  warn: Warn;
}

/** The renderings in progress in this process. Next.js reports the start of one (by `get`) and its success (by `set`), but not its failure. */
export class Renderings {
  readonly #of: RenderingOptions;
  readonly #running = new Map<string, { rendering: Rendering; budget: AbortController }>();

  constructor(of: RenderingOptions) {
    this.#of = of;
  }

  /** Returns the rendering of a page in progress in this process. */
  of(cacheKey: string): Rendering | undefined {
    return this.#running.get(cacheKey)?.rendering;
  }

  /**
   * Acquires the right to render a page; undefined if another process has it. `again` reports
   * that this process already had it: Next.js asks once per rendering, so an earlier one has
   * failed, or its result will find that its lease has been passed on.
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

  /** Acquires the lease of a page without a heartbeat, for short use. */
  async acquire(cacheKey: string): Promise<{ lease: Lease; askedAt: number } | undefined> {
    const { store, clock, leaseMs } = this.#of;
    const askedAt = clock.elapsed();
    const lease = await store.tryAcquireLease({ cacheKey, leaseDurationMs: leaseMs });
    return lease ? { lease, askedAt } : undefined;
  }

  /** Stops the heartbeat and forgets the rendering. The caller has finished with the lease. */
  async end(rendering: Rendering): Promise<void> {
    const known = this.#running.get(rendering.cacheKey);
    if (known?.rendering === rendering) {
      this.#running.delete(rendering.cacheKey);
      known.budget.abort();
    }
    await rendering.heartbeat.stop();
  }

  /** Ends a rendering and releases its lease. */
  async giveUp(rendering: Rendering): Promise<void> {
    await this.end(rendering);
    await this.#of.store.releaseLease(rendering.lease);
  }

  /** Ends a failed rendering and puts the page into backoff. */
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

  /** Starts, or restarts, the timeout of a rendering. */
  #limit(rendering: Rendering): void {
    this.#running.get(rendering.cacheKey)?.budget.abort();
    const budget = new AbortController();
    this.#running.set(rendering.cacheKey, { rendering, budget });
    void this.#of.clock.sleep(this.#of.renderMs, budget.signal).then(async (passed) => {
      if (!passed) return;
      this.#of.warn('a rendering failed or timed out; its lease is released', { cacheKey: rendering.cacheKey });
      await this.giveUp(rendering).catch((failure: unknown) => {
        this.#of.warn('failed to release a lease; it will expire', { cacheKey: rendering.cacheKey, failure });
      });
    });
  }
}
