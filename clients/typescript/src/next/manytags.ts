import { LruCache } from '../cache/lru.js';
import type { Warn } from '../isr/backend.js';
import type { Entry, HeaderFields } from '../isr/entry.js';

/**
 * How many bytes the tags of a page may have, each with a separator: an item of DynamoDB has at most
 * 400 KB, and the rest of the row needs some.
 * https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
 */
export const maxTagsBytes = 350 * 1024;

/** How many pages with too many tags are remembered, each of which is reported once. */
const maxReported = 1000;

/** The stored header of an entry without its tags: the revalidation of any tag covers it. */
const header = 'facetheory-next-tags';
const any = 'any';

/** Reports whether the revalidation of any tag covers an entry: it has more tags than fit into its row. */
export function isOfAnyTag({ headers }: Entry): boolean {
  return headers[header]?.[0] === any;
}

/** Decides what is stored of the tags of pages, and reports those that have too many. */
export class TagLimit {
  readonly #warn: Warn;
  readonly #reported = new LruCache<true>(maxReported);

  constructor(warn: Warn) {
    this.#warn = warn;
  }

  /** Returns the tags of a page as they are stored, and a header that stands for them if they are too many. */
  stored(cacheKey: string, tags: readonly string[]): { tags: readonly string[]; headers: HeaderFields } {
    const bytes = tags.reduce((sum, tag) => sum + Buffer.byteLength(tag) + 1, 0);
    if (bytes <= maxTagsBytes) return { tags, headers: {} };
    if (!this.#reported.get(cacheKey)) {
      const size = `${tags.length} tags of ${bytes} bytes, and its row has place for ${maxTagsBytes}`;
      this.#warn(
        `the page ${cacheKey} has ${size}: the revalidation of any tag will revalidate it; give it fewer tags`,
        {},
      );
    }
    this.#reported.set(cacheKey, true, 1);
    return { tags: [], headers: { [header]: [any] } };
  }
}
