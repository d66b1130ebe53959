import type { Bodies } from '../cache/bodies.js';
import type { CircuitBreaker } from '../cache/breaker.js';
import { LruCache } from '../cache/lru.js';
import { PurgeMarks } from '../cache/purgemarks.js';
import { storesOf } from '../cache/stores.js';
import type { Backend } from '../isr/backend.js';
import type { FaceTheoryIsrMetaStore } from '../isr/store.js';
import type { HandlerContext, Value } from './contract.js';
import { KeptPurges } from './keptpurges.js';
import { TagLimit } from './manytags.js';
import { buildIdOf } from './names.js';
import type { Settings } from './options.js';
import { Pages } from './pages.js';
import { Records } from './records.js';
import { Release } from './release.js';
import { Renderings } from './renderings.js';
import { Revalidations } from './revalidations.js';
import { Seeds } from './seeds.js';
import { Visits } from './visits.js';

/** How many pages with a timed-out wait are remembered. */
const maxTimedOutWaits = 1000;

/** How long a rendering is expected to last if the visit that it is made for is not known, in milliseconds. */
const unknownMs = 1000;

/** The state that all requests of a process share. */
export class Site {
  readonly settings: Settings;
  readonly buildId: string;
  readonly release = new Release();
  readonly backend: Backend;
  readonly store: FaceTheoryIsrMetaStore;
  readonly marks: PurgeMarks;
  readonly bodies: Bodies;
  readonly seeds: Seeds | undefined;
  readonly pages: Pages;
  readonly renderings: Renderings;
  readonly revalidations: Revalidations;
  readonly breaker: CircuitBreaker;
  readonly tagLimit: TagLimit;
  readonly visits = new Visits();
  /** The values that Next.js was given. If it passes one back to `set`, its regeneration has failed. */
  readonly served = new WeakSet<object>();
  /** Until when visitors do not wait for a page that another process renders, on the monotonic clock, after a timed-out wait. */
  readonly waitTimedOut = new LruCache<number>(maxTimedOutWaits);

  constructor(settings: Settings, ctx: HandlerContext) {
    const { tenant, clock, warn } = settings;
    const { backend, store, bodies, breaker } = storesOf(settings);
    this.settings = settings;
    this.buildId = settings.buildId ?? buildIdOf(ctx.serverDistDir, process.env);
    this.backend = backend;
    this.store = store;
    const records = new Records(clock);
    this.marks = new PurgeMarks(this.backend, tenant, (cacheKey) => records.changed(cacheKey));
    this.bodies = bodies;
    this.seeds = Seeds.open(ctx.serverDistDir, settings.retentionSeconds, warn);
    const purges = new KeptPurges(store, this.marks, settings);
    this.pages = new Pages({
      store: this.store,
      marks: this.marks,
      purges,
      records,
      bodies: this.bodies,
      seeds: this.seeds,
      clock,
      trustMs: settings.trustMs,
      memoryBytes: ctx.maxMemoryCacheSize ?? 0,
    });
    this.renderings = new Renderings({ ...settings, store: this.store, unknownMs });
    this.revalidations = new Revalidations(purges, this.pages);
    this.breaker = breaker;
    this.tagLimit = new TagLimit(warn);
    this.visits.listen();
  }

  /** Remembers that Next.js was given a value. */
  markServed(value: Value): void {
    if (value !== null) this.served.add(value);
  }
}
