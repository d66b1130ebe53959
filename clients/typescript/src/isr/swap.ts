import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { floorSeconds } from '../clock.js';
import { type Backend, keyOf } from './backend.js';
import type { Entry } from './entry.js';
import { conditionOf, exists, updateOf } from './expression.js';
import type { Fence } from './fence.js';
import { present, storedContent, storedMap } from './metarow.js';
import { BOUNDS, PREFIX, SK } from './names.js';
import { clamp } from './numbers.js';
import { N, S, text } from './row.js';
import { type Action, onRow } from './transaction.js';

/** Options of a swap. */
export interface SwapOptions {
  /** The entry has a version row. */
  kept: boolean;
  /** When the superseded version may be garbage collected, in epoch milliseconds. Default: with the entry, but after a month at the latest. */
  supersededAtMs?: number | undefined;
  /** Deletes the superseded version, since the new one replaces it. */
  replaced?: boolean;
  /** META gets only the reference's attributes and the fence: the content is not described further. */
  bare?: boolean;
}

/** How long a superseded version is kept by default, in seconds. */
const maxSupersededSeconds = 30 * 24 * 3600;

/** The writes that replace META's entry and update the version rows it points at. */
export class Swap {
  readonly backend: Backend;
  readonly fence: Fence;
  /** The new entry, normalized, with its version. */
  readonly next: Entry;
  /** The version as an exact integer. */
  readonly version: bigint;
  /** The sort key of the version row that META points at afterwards, empty for none. */
  readonly currentSk: string;
  readonly #replaced: boolean;
  readonly #bare: boolean;
  /** The sort key of the version row that META points at now; empty if none, or if it stays. */
  #superseded = '';
  #supersededTtl = 0;

  constructor(b: Backend, fence: Fence, next: Entry, how: SwapOptions) {
    const now = b.clock.now();
    this.backend = b;
    this.fence = fence;
    this.version = fence.nextVersion(now);
    this.next = { ...next, version: clamp(this.version, 0, BOUNDS.count) };
    this.currentSk = how.kept ? PREFIX.version + next.generationId : '';
    this.#replaced = how.replaced ?? false;
    this.#bare = how.bare ?? false;
    const named = text(fence.meta, 'current_sk');
    if (named.startsWith(PREFIX.version) && named !== this.currentSk) {
      this.#superseded = named;
      this.#supersededTtl = supersededTtl(floorSeconds(now), how.supersededAtMs, next.ttlUnixSeconds);
    }
  }

  /**
   * Updates META on condition that it is unchanged since the read. The update sets or
   * removes every attribute of the reference, so that no generation inherits from another,
   * and keeps unknown attributes.
   */
  updateMeta(): Action {
    const attributes = { ...storedContent(this.next, this.currentSk), isr: this.#map() };
    const row = onRow(this.backend, this.fence.pk, SK.meta);
    return { purpose: 'meta', item: { Update: { ...row, ...updateOf(attributes, this.fence.unchanged()) } } };
  }

  /** Without `s3_key` the map claims no content: readers treat the row as another service's. */
  #map(): AttributeValue {
    if (!this.#bare) return storedMap(this.next, this.version);
    return { M: { v: N(this.version), generation_id: S(this.next.generationId) } };
  }

  /** Puts the version row of the generation, if it is kept. It has no ttl while it is current. */
  putVersion(): Action[] {
    if (this.currentSk === '') return [];
    const { Key: _, ...row } = onRow(this.backend, this.fence.pk, this.currentSk);
    const { ttl: __, ...content } = storedContent(this.next, '');
    const Item = {
      ...keyOf(this.fence.pk, this.currentSk),
      ...present(content),
      isr: storedMap(this.next, this.version),
    };
    return [{ purpose: 'version', item: { Put: { ...row, Item, ConditionExpression: 'attribute_not_exists(pk)' } } }];
  }

  /** Sets the ttl of the superseded version row, or deletes it if it is replaced, on condition that it exists. */
  expireSuperseded(): Action[] {
    if (this.#superseded === '') return [];
    const row = onRow(this.backend, this.fence.pk, this.#superseded);
    if (this.#replaced) return [{ purpose: 'superseded', item: { Delete: { ...row, ...conditionOf(exists) } } }];
    const ttl = updateOf({ ttl: N(this.#supersededTtl) }, exists);
    return [{ purpose: 'superseded', item: { Update: { ...row, ...ttl } } }];
  }

  /** Drops the write to the superseded version row: it was deleted, and deleted versions never return. */
  dropSuperseded(): void {
    this.#superseded = '';
  }
}

/** Returns the ttl of a superseded version, in epoch seconds. */
function supersededTtl(now: number, askedMs: number | undefined, ttl: number | undefined): number {
  if (askedMs !== undefined) return floorSeconds(askedMs);
  return Math.min(now + maxSupersededSeconds, ttl ?? Number.POSITIVE_INFINITY);
}
