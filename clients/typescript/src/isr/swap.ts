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

/** What is asked of a swap beside the entry. */
export interface Swapping {
  /** The entry has a version row. */
  kept: boolean;
  /** When the version that was current may be collected, in epoch milliseconds; absent: with the entry, but after a month at the latest. */
  supersededAtMs?: number | undefined;
  /** The superseded version goes now, as another takes its place. */
  replaced?: boolean;
  /** META says the reference's attributes alone, with the fence: nothing more is known of the content. */
  bare?: boolean;
}

/** How long a superseded version is kept if nobody says, at most, in seconds. */
const longestSuperseded = 30 * 24 * 3600;

/** What every change does to META and to the versions it names. */
export class Swap {
  readonly backend: Backend;
  readonly fence: Fence;
  /** Normalized, with the version that it is given. */
  readonly next: Entry;
  /** That version, exactly. */
  readonly version: bigint;
  /** The sort key of the version that META names afterwards, empty for none. */
  readonly currentSk: string;
  readonly #replaced: boolean;
  readonly #bare: boolean;
  /** That of the version that META names now, empty for none, or if it stays. */
  #superseded = '';
  #supersededTtl = 0;

  constructor(b: Backend, fence: Fence, next: Entry, how: Swapping) {
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
      this.#supersededTtl = retirement(floorSeconds(now), how.supersededAtMs, next.ttlUnixSeconds);
    }
  }

  /**
   * Updates META, on condition that it is what was read. The update sets or removes
   * every attribute of the reference, so that no generation inherits from another, and
   * leaves those alone that we do not know.
   */
  moveMeta(): Action {
    const attributes = { ...storedContent(this.next, this.currentSk), isr: this.#map() };
    const row = onRow(this.backend, this.fence.pk, SK.meta);
    return { purpose: 'meta', item: { Update: { ...row, ...updateOf(attributes, this.fence.unmoved()) } } };
  }

  /** A map without `s3_key` says of no content that it is ours: readers take the row for another service's. */
  #map(): AttributeValue {
    if (!this.#bare) return storedMap(this.next, this.version);
    return { M: { v: N(this.version), generation_id: S(this.next.generationId) } };
  }

  /** Makes the version row of the generation, if there is to be one. It has no ttl while it is current. */
  keepVersion(): Action[] {
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

  /** Lets the superseded version be collected, some day or, if it is replaced, now, if it is still there. */
  retireVersion(): Action[] {
    if (this.#superseded === '') return [];
    const row = onRow(this.backend, this.fence.pk, this.#superseded);
    if (this.#replaced) return [{ purpose: 'superseded', item: { Delete: { ...row, ...conditionOf(exists) } } }];
    const ttl = updateOf({ ttl: N(this.#supersededTtl) }, exists);
    return [{ purpose: 'superseded', item: { Update: { ...row, ...ttl } } }];
  }

  /** Leaves the superseded version alone: it is gone, and versions do not come back. */
  forget(): void {
    this.#superseded = '';
  }
}

/** When a superseded version may be collected, in epoch seconds. */
function retirement(now: number, askedMs: number | undefined, ttl: number | undefined): number {
  if (askedMs !== undefined) return floorSeconds(askedMs);
  return Math.min(now + longestSuperseded, ttl ?? Number.POSITIVE_INFINITY);
}
