import { writeFailure } from '../classify.js';
import { InvalidInputError } from '../errors.js';
import { BOUNDS } from '../isr/names.js';
import { MAX_PURGE_TARGETS } from '../isr/purgetarget.js';
import type { KeptPurges, PurgeHow } from './keptpurges.js';
import type { Pages } from './pages.js';

/** How a tag is revalidated: without durations now, otherwise as stale until `expire`, in seconds. */
export interface Durations {
  expire?: number | undefined;
}

/**
 * The revalidations of tags that Next.js asks for, as purges. Next.js asks each of its cache
 * handlers for the same one, in the same turn of the event loop: they share a purge.
 */
export class Revalidations {
  readonly #purges: KeptPurges;
  readonly #pages: Pages;
  /** The revalidations that have not been sent yet. */
  readonly #waiting = new Map<string, Promise<void>>();

  constructor(purges: KeptPurges, pages: Pages) {
    this.#purges = purges;
    this.#pages = pages;
  }

  /** Revalidates tags. It resolves once that is in the table, or is kept to be sent again; see {@link KeptPurges}. */
  revalidate(tags: string | readonly string[], durations: Durations | undefined): Promise<void> {
    const all = [...new Set(typeof tags === 'string' ? [tags] : tags)].filter((tag) => tag !== '');
    const name = JSON.stringify([durations !== undefined, durations?.expire, all]);
    const known = this.#waiting.get(name) ?? this.#inNextTurn(name, all, durations);
    this.#waiting.set(name, known);
    return known;
  }

  /** Makes one page stale, by its cache key. It resolves as {@link revalidate} does. */
  async revalidatePage(cacheKey: string): Promise<void> {
    try {
      await this.#purges.purge([{ kind: 'key', value: cacheKey }], {});
    } finally {
      this.#pages.forget(cacheKey);
    }
  }

  async #inNextTurn(name: string, tags: readonly string[], durations: Durations | undefined): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#waiting.delete(name);
    try {
      const how = purgeModeOf(durations);
      const targets = tags.map((value) => ({ kind: 'tag' as const, value }));
      for (let at = 0; at < targets.length; at += MAX_PURGE_TARGETS) {
        await this.#purges.purge(targets.slice(at, at + MAX_PURGE_TARGETS), how);
      }
    } catch (error) {
      throw writeFailure(`the revalidation of ${named(tags)}`, [], error);
    } finally {
      this.#pages.forget();
    }
  }
}

/** Formats tags for a message: the first five by name. */
function named(tags: readonly string[]): string {
  const some = tags.slice(0, 5).join(', ');
  return tags.length > 5 ? `${some} and ${tags.length - 5} more` : some;
}

/** Maps Next.js's durations to a purge: hard without durations, soft until `expire` with them. */
function purgeModeOf(durations: Durations | undefined): PurgeHow {
  const expire = durations?.expire;
  if (!durations || expire === 0) return { hard: true };
  if (expire !== undefined && !(typeof expire === 'number' && expire > 0)) {
    throw new InvalidInputError(`expire must be a number of seconds, at least 0 (got ${expire})`);
  }
  return expire !== undefined && expire < BOUNDS.interval ? { expireSeconds: expire } : {};
}
