import type { Clock } from '../clock.js';
import type { Warn } from '../isr/backend.js';
import type { Lease } from '../isr/lease.js';
import type { IsrMetaStore } from '../isr/metastore.js';
import { type Heartbeat, startHeartbeat } from '../leases/heartbeat.js';
import type { Visit } from './visits.js';

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
  /** How long a rendering is expected to last of which nothing but its start is known, in milliseconds. */
  unknownMs: number;
  warn: Warn;
}

/** How long after the end of its visits a rendering may still be stored, in milliseconds: Next.js sends an image before it stores it. */
const settleMs = 200;

/** How long servers render a page that has failed without waiting for each other, in milliseconds. */
const failedMs = 1000;

/** A rendering, and what is known of its progress. */
interface Progress {
  readonly rendering: Rendering;
  /** Ends the timeout. */
  timeout: AbortController;
  /** The visits that it is made for, each with what ends the interest in it. */
  readonly visits: Map<Visit, () => void>;
  /** Next.js reports its end by `set`, or has done so. */
  isReported: boolean;
}

/**
 * The renderings in progress in this process. Next.js reports the start of one (by `get`) and its
 * success (by `set`), but its failure only if it was given a value to keep. Without one, a
 * rendering is in progress as long as one of the visits that it is made for.
 */
export class Renderings {
  readonly #of: RenderingOptions;
  readonly #running = new Map<string, Progress>();

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
   * failed, or its result will find that its lease has been passed on. The caller goes on with
   * {@link follow} or {@link awaitReport}.
   */
  async take(cacheKey: string): Promise<{ rendering: Rendering; again: boolean } | undefined> {
    const known = this.#running.get(cacheKey);
    if (known) {
      this.#limit(known, this.#of.renderMs);
      return { rendering: known.rendering, again: true };
    }
    const lease = await this.acquire(cacheKey);
    if (!lease) return undefined;
    const rendering = { cacheKey, lease: lease.lease, heartbeat: this.#keep(lease.lease, lease.askedAt) };
    const progress = { rendering, timeout: new AbortController(), visits: new Map(), isReported: false };
    this.#running.set(cacheKey, progress);
    this.#limit(progress, this.#of.renderMs);
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

  /** Follows a rendering of which Next.js reports the success only: it ends with its visits, or, if none is known, after `unknownMs`. */
  follow(rendering: Rendering, candidates: readonly Visit[]): void {
    const progress = this.#progressOf(rendering);
    if (!progress || progress.isReported) return;
    const { visits } = progress;
    for (const visit of candidates) {
      if (visits.has(visit) || visit.isOver) continue;
      const unwatch = visit.watch(() => {
        visits.delete(visit);
        if (visits.size === 0 && !progress.isReported) this.#limit(progress, settleMs, visit.hasFailed);
      });
      visits.set(visit, unwatch);
    }
    if (visits.size === 0) this.#limit(progress, this.#of.unknownMs);
  }

  /** Waits for Next.js to report the end of a rendering, in the background of a visit. */
  awaitReport(rendering: Rendering, candidates: readonly Visit[]): void {
    const progress = this.#progressOf(rendering);
    if (!progress) return;
    progress.isReported = true;
    const [visit, ...others] = candidates;
    if (visit && others.length === 0 && !progress.visits.has(visit)) progress.visits.set(visit, visit.hold());
  }

  /** Returns a rendering, whose result is stored now, if it is still in progress. */
  storing(rendering: Rendering | undefined): Rendering | undefined {
    const progress = rendering && this.#progressOf(rendering);
    if (!progress) return undefined;
    progress.isReported = true;
    this.#limit(progress, this.#of.renderMs);
    return rendering;
  }

  /** Stops the heartbeat and forgets the rendering. The caller has finished with the lease. */
  async end(rendering: Rendering): Promise<void> {
    const progress = this.#progressOf(rendering);
    if (progress) {
      this.#running.delete(rendering.cacheKey);
      progress.timeout.abort();
      for (const lose of progress.visits.values()) lose();
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

  #progressOf(rendering: Rendering): Progress | undefined {
    const progress = this.#running.get(rendering.cacheKey);
    return progress?.rendering === rendering ? progress : undefined;
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

  /** Starts, or restarts, the timeout of a rendering. A page whose rendering has failed is put into backoff: no server waits for the next one. */
  #limit(progress: Progress, afterMs: number, hasFailed = false): void {
    const { clock, renderMs, warn } = this.#of;
    const { rendering } = progress;
    progress.timeout.abort();
    progress.timeout = new AbortController();
    void clock.sleep(afterMs, progress.timeout.signal).then(async (passed) => {
      if (!passed) return;
      if (afterMs >= renderMs) warn('a rendering timed out; its lease is released', { cacheKey: rendering.cacheKey });
      await (hasFailed ? this.backOff(rendering, failedMs) : this.giveUp(rendering)).catch((failure: unknown) => {
        warn('failed to release a lease; it will expire', { cacheKey: rendering.cacheKey, failure });
      });
    });
  }
}
