import type { Backend } from '../isr/backend.js';
import { settingsOf as storeSettings } from '../isr/config.js';
import type { LogQueue } from '../isr/logqueue.js';
import { FaceTheoryIsrMetaStore } from '../isr/store.js';
import { Bodies } from './bodies.js';
import { CircuitBreaker } from './breaker.js';
import type { HandlerContext, Value } from './contract.js';
import { LruCache } from './lru.js';
import { buildIdOf } from './names.js';
import type { Settings } from './options.js';
import { Pages } from './pages.js';
import { PurgeMarks } from './purgemarks.js';
import { Renderings } from './renderings.js';

/** The timeout of one DynamoDB call, in milliseconds. A visitor waits at most twice that. */
const callTimeoutMs = 1500;

/** How many pages with a timed-out wait are remembered. */
const maxTimedOutWaits = 1000;

/** How much longer than entries purge marks are kept, in seconds: an entry must not outlive the marks of its tags. */
const marksOutlive = 2 * 24 * 3600;

/** The state that all requests of a process share. */
export class Site {
  readonly settings: Settings;
  readonly buildId: string;
  readonly markLifetimeSeconds: number;
  readonly backend: Backend;
  /** The store's own queue: tag purges share transactions with rollbacks and pins. */
  readonly log: LogQueue;
  readonly store: FaceTheoryIsrMetaStore;
  readonly marks: PurgeMarks;
  readonly bodies: Bodies;
  readonly pages: Pages;
  readonly renderings: Renderings;
  readonly breaker: CircuitBreaker;
  /** The values that Next.js was given. If it passes one back to `set`, its regeneration has failed. */
  readonly served = new WeakSet<object>();
  /** Until when visitors do not wait for a page that another process renders, on the monotonic clock, after a timed-out wait. */
  readonly waitTimedOut = new LruCache<number>(maxTimedOutWaits);

  constructor(settings: Settings, ctx: HandlerContext) {
    const { ddb, tableName, tenant, clock, warn } = settings;
    const config = { ddb, tableName, clock, warn, callTimeoutMs, ...(tenant ? { tenant } : {}) };
    this.settings = settings;
    this.buildId = settings.buildId ?? buildIdOf(ctx.serverDistDir);
    this.markLifetimeSeconds = settings.retentionSeconds + marksOutlive;
    const shared = storeSettings(config);
    this.backend = shared.backend;
    this.log = shared.log;
    this.store = new FaceTheoryIsrMetaStore(config, shared);
    this.marks = new PurgeMarks(this.backend, tenant);
    this.bodies = new Bodies(settings.s3, settings.bucket);
    this.pages = new Pages({
      store: this.store,
      marks: this.marks,
      bodies: this.bodies,
      clock,
      trustMs: settings.trustMs,
      memoryBytes: ctx.maxMemoryCacheSize ?? 0,
    });
    this.renderings = new Renderings({ ...settings, store: this.store });
    this.breaker = new CircuitBreaker(clock, settings.outageMs, warn);
  }

  /** Remembers that Next.js was given a value. */
  markServed(value: Value): void {
    if (value !== null) this.served.add(value);
  }
}
