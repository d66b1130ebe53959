import { createHash } from 'node:crypto';

import type { Clock } from '../../clock.js';
import type { CacheControl, Kind, Value } from '../contract.js';
import type { LookupResult } from '../lookup.js';
import type { CacheEntry } from './contract.js';

/**
 * Converts entries to cached values and back. A value has the exact numbers of its entry, and
 * when the function was called, in epoch milliseconds by the clock of the writer.
 */

/** How old an entry that another process is replacing appears to be, at most, in milliseconds. See {@link entryOf}. */
const shownAgeMs = 10_000;

/** Infinity has no JSON. */
const forever = 'forever';

/** The current time, on the clock of {@link CacheEntry.timestamp}. It does not follow adjustments of the system clock. */
export function performanceTime(): number {
  return performance.timeOrigin + performance.now();
}

/** Returns the cache key of Next.js's key, which has the build, the function and its arguments, and any length. */
export function cacheKeyOf(key: string): string {
  return `next/use-cache/${createHash('sha256').update(key, 'utf8').digest('hex')}`;
}

/** Returns the value of an entry, whose function was called at a time in epoch milliseconds. */
export function cachedValueOf(entry: CacheEntry, body: Buffer, generatedAtMs: number): Value {
  const { tags, stale, revalidate, expire } = entry;
  const kind: Kind = 'USE_CACHE';
  return {
    kind,
    body,
    tags,
    generatedAtMs,
    stale: stored(stale),
    revalidate: stored(revalidate),
    expire: stored(expire),
  };
}

/** Returns the lifetime of an entry as the handler of pages understands it. */
export function lifeOf({ revalidate, expire }: CacheEntry): CacheControl {
  return {
    revalidate: revalidate === Number.POSITIVE_INFINITY ? false : Math.max(0, revalidate),
    ...(expire === Number.POSITIVE_INFINITY ? {} : { expire }),
  };
}

/**
 * Returns the entry of a look-up, with a new stream; undefined if Next.js must call the function
 * while the visitor waits.
 *
 * A fresh entry has its own lifetime and age, by the clock of this process. A stale one that this
 * process regenerates is stale for Next.js as well. A stale one that another process regenerates
 * is fresh for a second. It appears to be young: what Next.js makes of it (pages, other entries)
 * gets the time of its freshness as a limit, and would otherwise stay as long as it is old. Ten
 * seconds of age remain, so that a Server Action that has revalidated one of its tags sees that
 * it is older.
 */
export function entryOf({ answer, state }: LookupResult, clock: Clock): CacheEntry | undefined {
  const value = answer?.value;
  if (value?.kind !== 'USE_CACHE' || !state) return undefined;
  const ageMs = Math.max(0, clock.now() - Number(value['generatedAtMs']));
  const revalidate = restored(value['revalidate']);
  const isYoung = state === 'regenerated elsewhere' && revalidate !== 0;
  const shownMs = isYoung ? Math.min(ageMs, shownAgeMs) : ageMs;
  return {
    value: streamOf(value['body'] as Buffer),
    tags: [...(value['tags'] as string[])],
    stale: restored(value['stale']),
    timestamp: performanceTime() - shownMs,
    expire: restored(value['expire']),
    revalidate: revalidateOf(state, revalidate, shownMs),
  };
}

function revalidateOf(state: LookupResult['state'], revalidate: number, ageMs: number): number {
  if (revalidate === 0) return 0; // Next.js leaves it out of static pages
  if (state === 'regenerated here') return -1;
  return state === 'regenerated elsewhere' ? ageMs / 1000 + 1 : revalidate;
}

function stored(seconds: number): number | string {
  return seconds === Number.POSITIVE_INFINITY ? forever : seconds;
}

function restored(value: unknown): number {
  return value === forever ? Number.POSITIVE_INFINITY : Number(value);
}

function streamOf(body: Buffer): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new Uint8Array(body)); // a copy: a reader may transfer it
      controller.close();
    },
  });
}

/** Reads a stream to its end; undefined, and the stream is cancelled, if it has more bytes than allowed. */
export async function readAll(
  stream: ReadableStream<Uint8Array>,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  const reader = stream.getReader();
  const stop = () => void reader.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener('abort', stop);
  try {
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for (;;) {
      const { done, value } = await reader.read();
      signal.throwIfAborted(); // a cancelled stream ends
      if (done) return Buffer.concat(parts);
      bytes += value.byteLength;
      if (bytes > maxBytes) break;
      parts.push(value);
    }
    await reader.cancel(new RangeError(`an entry of 'use cache' has more than ${maxBytes} bytes`));
    return undefined;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
