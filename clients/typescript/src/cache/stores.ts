import type { Backend } from '../isr/backend.js';
import { settingsOf } from '../isr/config.js';
import { FaceTheoryIsrMetaStore } from '../isr/store.js';
import { Bodies } from './bodies.js';
import { CircuitBreaker } from './breaker.js';
import type { StoreSettings } from './settings.js';

/** What the caches of a process are built on. */
export interface Stores {
  readonly backend: Backend;
  readonly store: FaceTheoryIsrMetaStore;
  readonly bodies: Bodies;
  readonly breaker: CircuitBreaker;
}

/** Makes the stores of a cache. Nothing is sent. */
export function storesOf(settings: StoreSettings): Stores {
  const { ddb, tableName, tenant, partition, clock, warn, callMs: callTimeoutMs } = settings;
  // Pages get a ttl from each call; the store derives the lifetime of purge marks.
  const metaTtlSeconds = settings.retentionSeconds;
  const config = {
    ddb,
    tableName,
    clock,
    warn,
    callTimeoutMs,
    metaTtlSeconds,
    ...(tenant && { tenant }),
    ...(partition === undefined ? {} : { partition }),
  };
  const shared = settingsOf(config);
  return {
    backend: shared.backend,
    store: new FaceTheoryIsrMetaStore(config, shared),
    bodies: new Bodies(settings.s3, settings.bucket),
    breaker: new CircuitBreaker(clock, settings.outageMs, warn, () => shared.backend.calls.answers),
  };
}
