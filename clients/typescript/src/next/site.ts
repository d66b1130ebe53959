import type { Backend } from '../isr/backend.js';
import { settingsOf as storeSettings } from '../isr/config.js';
import type { LogQueue } from '../isr/logqueue.js';
import { FaceTheoryIsrMetaStore } from '../isr/store.js';
import { Bodies } from './bodies.js';
import type { HandlerContext, Value } from './contract.js';
import { Marks } from './marks.js';
import { Memory } from './memory.js';
import { buildIdOf } from './names.js';
import type { Settings } from './options.js';
import { Outage } from './outage.js';
import { Pages } from './pages.js';
import { Running } from './renderings.js';

/** Bounds one call of the table, in milliseconds: a visitor waits for twice that at most. */
const callTimeoutMs = 1500;

/** How many pages are remembered that somebody has waited for in vain. */
const mostInVain = 1000;

/** How much longer than entries marks are kept, in seconds: an entry may not outlive what was said of its tags. */
const marksOutlive = 2 * 24 * 3600;

/** What all requests of a process share. */
export class Site {
  readonly settings: Settings;
  readonly buildId: string;
  readonly markLifetimeSeconds: number;
  readonly backend: Backend;
  /** The store's own queue: purges of tags share its transactions with rollbacks and pins. */
  readonly log: LogQueue;
  readonly store: FaceTheoryIsrMetaStore;
  readonly marks: Marks;
  readonly bodies: Bodies;
  readonly pages: Pages;
  readonly running: Running;
  readonly outage: Outage;
  /** The values that Next was given: if it returns one, it could not make a new one. */
  readonly given = new WeakSet<object>();
  /** Until when visitors do not wait for pages that others make, on the monotonic clock: somebody has waited in vain. */
  readonly inVain = new Memory<number>(mostInVain);

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
    this.marks = new Marks(this.backend, tenant);
    this.bodies = new Bodies(settings.s3, settings.bucket);
    this.pages = new Pages({
      store: this.store,
      marks: this.marks,
      bodies: this.bodies,
      clock,
      trustMs: settings.trustMs,
      memoryBytes: ctx.maxMemoryCacheSize ?? 0,
    });
    this.running = new Running({ ...settings, store: this.store });
    this.outage = new Outage(clock, settings.outageMs, warn);
  }

  /** Remembers that Next has a value. */
  give(value: Value): void {
    if (value !== null) this.given.add(value);
  }
}
