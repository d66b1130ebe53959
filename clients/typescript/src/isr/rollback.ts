import { MovedError, NoVersionError, PurgedError } from '../errors.js';
import { type Backend, readRow } from './backend.js';
import type { Cover, Entry } from './entry.js';
import { updateOf } from './expression.js';
import { mergeCovers, NO_COVER, outlivesMarks } from './freshness.js';
import { readSequence, reloadTarget, type Target } from './log.js';
import type { LogChange, LogQueue, Statement } from './logqueue.js';
import { coverByMarks } from './mark.js';
import { PREFIX, SK } from './names.js';
import { coverOf } from './purgerow.js';
import type { PageRecord } from './record.js';
import { S, text } from './row.js';
import { Swap } from './swap.js';
import { type Action, onRow, type Refusal, writtenBy } from './transaction.js';
import { findVersion } from './version.js';

/** What a person declares of a page. */
export interface Assertion {
  /** The page, for the log. */
  page: Target;
  /** When it was declared. */
  assertedAtMs: number;
  /** Suspends expiry by time until then; absent: not pinned. */
  pinnedUntilMs?: number | undefined;
  /** When DynamoDB may collect the entry, in epoch seconds; absent: never. */
  ttlUnixSeconds?: (entry: Entry) => number | undefined;
  /** When it may collect the version that was current; absent: with the entry, but after a month at the latest. */
  supersededAtMs?: number | undefined;
}

/** Where assertions are made. */
export interface Assertions {
  readonly backend: Backend;
  readonly log: LogQueue;
}

/**
 * Makes a kept generation current, in one transaction, and only if the entry is still
 * exactly what was read. It needs no lease: a regeneration that is under way loses on
 * the fence. A generation that is current already is pinned, as by {@link pin}.
 * @throws NoVersionError PurgedError MovedError UnknownOutcomeError MalformedRowError
 */
export async function rollback(
  on: Assertions,
  signal: AbortSignal | undefined,
  record: PageRecord,
  to: string,
  a: Assertion,
): Promise<Entry> {
  const { backend: b } = on;
  const { entry, fence } = record;
  if (entry && !entry.foreign && entry.generationId === to) return pin(on, signal, record, a);
  // SEQ first: a hard purge that is not seen below has a higher sequence than this one,
  // and so covers what the rollback makes, whatever SEQ is when it is committed.
  const { seq, markLifetimeSeconds } = await readSequence(b, signal);
  const purge = await readRow(b, signal, fence.pk, SK.purge);
  const version = await findVersion(b, signal, fence.pk, to);
  checkWithdrawn(version, a.page.key);
  const marks = await coverByMarks(b, signal, a.page, version.tags);
  checkPurged(version, [record.cover, purge ? coverOf(purge) : NO_COVER, marks]);
  if (outlivesMarks(version, markLifetimeSeconds, b.clock.now())) {
    throw new PurgedError(
      `the generation ${to} is older than what is known of purges: marks that covered it may be gone; regenerate the page`,
    );
  }
  const next = asserted({ ...version, purgeSeq: seq, assertedAtMs: a.assertedAtMs }, a.pinnedUntilMs, a);
  const swap = new Swap(b, fence, next, { kept: true, supersededAtMs: a.supersededAtMs });
  return reassert(on, signal, swap, a, version);
}

/**
 * Changes how long the current entry is pinned, in one transaction. Neither its purge
 * sequence moves nor the time at which it was asserted: what was purged stays so. An
 * entry of another service has no place for a pin: regenerate it first.
 *
 * Unpinning keeps the end of the pin, which is now at the latest: it tells readers that
 * the entry was pinned, and may be served in place of a failure until a render succeeds.
 * @throws NoVersionError if there is no entry that could be pinned; PurgedError if a hard purge covers it, but never of unpinning
 */
export async function pin(
  on: Assertions,
  signal: AbortSignal | undefined,
  record: PageRecord,
  a: Assertion,
): Promise<Entry> {
  const { backend: b } = on;
  const { entry, fence } = record;
  if (!entry) throw new NoVersionError(`the page ${a.page.key} has no entry that could be pinned: regenerate it first`);
  if (entry.foreign) {
    throw new NoVersionError(`the entry of ${a.page.key} was written by another service: regenerate the page first`);
  }
  checkWithdrawn(entry, a.page.key);
  if (a.pinnedUntilMs !== undefined) {
    checkPurged(entry, [record.cover, await coverByMarks(b, signal, a.page, entry.tags)]);
  }
  const kept = text(fence.meta, 'current_sk') === PREFIX.version + entry.generationId;
  const next = asserted(entry, a.pinnedUntilMs ?? endedPin(entry, b.clock.now()), a);
  const swap = new Swap(b, fence, next, { kept, supersededAtMs: a.supersededAtMs });
  return reassert(on, signal, swap, a, undefined);
}

/** What the origin has withdrawn is not made current again. @throws NoVersionError */
function checkWithdrawn(entry: Entry, key: string): void {
  if (entry.withdrawn) {
    throw new NoVersionError(
      `the page ${key} was withdrawn by its origin: roll back to an older generation, or regenerate it`,
    );
  }
}

/** The end of a pin that is ended now, in whole seconds; undefined if there is none. */
function endedPin({ pinnedUntilMs }: Entry, nowMs: number): number | undefined {
  return pinnedUntilMs === undefined ? undefined : Math.min(pinnedUntilMs, Math.floor(nowMs / 1000) * 1000);
}

/** The entry with a pin, and the horizon of the assertion. */
function asserted(entry: Entry, pinnedUntilMs: number | undefined, a: Assertion): Entry {
  const { pinnedUntilMs: _, ttlUnixSeconds: __, ...rest } = entry;
  const next = pinnedUntilMs === undefined ? rest : { ...rest, pinnedUntilMs };
  const ttlUnixSeconds = a.ttlUnixSeconds?.(next);
  return ttlUnixSeconds === undefined ? next : { ...next, ttlUnixSeconds };
}

/** Refuses a generation that a hard purge covers. */
function checkPurged(e: Entry, covers: readonly Cover[]): void {
  const { hardSeq } = covers.reduce(mergeCovers);
  if (hardSeq > e.purgeSeq) {
    throw new PurgedError(
      `the generation ${e.generationId} was rendered at sequence ${e.purgeSeq} and purged for good at ${hardSeq}: regenerate the page`,
    );
  }
}

async function reassert(
  { log }: Assertions,
  signal: AbortSignal | undefined,
  swap: Swap,
  a: Assertion,
  restored: Entry | undefined,
): Promise<Entry> {
  await log.append(new Reassertion(swap, a.page, restored), signal);
  return swap.next;
}

/** A generation is to be current, which all nodes learn from the log. */
class Reassertion implements LogChange {
  readonly name: string;
  readonly writes: readonly string[];
  readonly marks = [];
  readonly markLifetimeSeconds = 0;
  readonly #swap: Swap;
  readonly #page: Target;
  /** The version that returns; undefined for a pin. */
  readonly #restored: Entry | undefined;

  constructor(swap: Swap, page: Target, restored: Entry | undefined) {
    this.name = `rollback or pin of the generation ${swap.next.generationId} of ${swap.fence.pk}`;
    this.#swap = swap;
    this.#page = page;
    this.#restored = restored;
    this.writes = this.state().map(({ action }) => writtenBy(action));
  }

  state(): Statement[] {
    const others = [...this.#restoreVersion(), ...this.#swap.retireVersion()];
    return [
      { action: this.#swap.moveMeta(), target: reloadTarget(this.#page) },
      ...others.map((action) => ({ action })),
    ];
  }

  /**
   * Keeps the version that returns from being collected, on condition that it has not
   * been: META must not point at what may be gone.
   */
  #restoreVersion(): Action[] {
    if (!this.#restored) return [];
    const { backend: b, fence, currentSk } = this.#swap;
    const there = {
      expression: 'attribute_exists(pk) AND s3_key = :s3_key',
      values: { ':s3_key': S(this.#restored.htmlPointer) },
    };
    const update = { ...onRow(b, fence.pk, currentSk), ...updateOf({ ttl: undefined }, there) };
    return [{ purpose: 'restored', item: { Update: update } }];
  }

  refused(why: Refusal): Error | undefined {
    const { fence, next } = this.#swap;
    if (why.has('meta')) {
      return new MovedError(`the entry of ${fence.pk} was changed by another writer: read it again`);
    }
    if (why.has('restored')) {
      return new NoVersionError(`the generation ${next.generationId} of ${fence.pk} is not kept any more`);
    }
    this.#swap.forget(); // only the superseded version was not there any more
    return undefined;
  }
}
