import { MovedError, NoVersionError, PurgedError } from '../errors.js';
import { outcomeOf } from '../outcome.js';
import { type Backend, failureOf, randomText, readRow } from './backend.js';
import type { Cover, Entry } from './entry.js';
import { updateOf } from './expression.js';
import { versionOf } from './fence.js';
import { mergeCovers, NO_COVER } from './freshness.js';
import { advance, passed, readSequence, reloadTarget, type SeenSequence, type Target } from './log.js';
import { PREFIX, SK } from './names.js';
import { coverOf } from './purgerow.js';
import type { PageRecord } from './record.js';
import { S, text } from './row.js';
import { type Change, carryOut, type Verdict } from './settle.js';
import { Swap } from './swap.js';
import { type Action, onRow, type Refusal, WriteRequest } from './transaction.js';
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

/**
 * Makes a kept generation current, in one transaction, and only if the entry is still
 * exactly what was read. It needs no lease: whoever regenerates the page meanwhile
 * loses on the fence. A generation that is current already is pinned, as by {@link pin}.
 *
 * Requests without an answer, and those that others' changes of the log have overtaken,
 * are repeated for settleTimeoutMs at most. If there is no answer even then, the
 * sequence is advanced, after which the transaction can no longer land, and the log
 * says whose it was.
 * @throws NoVersionError PurgedError MovedError UnknownOutcomeError
 */
export async function rollback(
  b: Backend,
  signal: AbortSignal | undefined,
  record: PageRecord,
  to: string,
  a: Assertion,
): Promise<Entry> {
  const { entry, fence } = record;
  if (entry && !entry.foreign && entry.generationId === to) return pin(b, signal, record, a);
  // In this order: a hard purge of the page that is not on PURGE when it is read here
  // has a higher sequence than this one, and so covers what the rollback makes. Other
  // purges, by tag or site, are those that the caller knew.
  const seen = await readSequence(b, signal);
  const purge = await readRow(b, signal, fence.pk, SK.purge);
  const version = await findVersion(b, signal, fence.pk, to);
  checkPurged(version, mergeCovers(record.cover, purge ? coverOf(purge) : NO_COVER));
  const next = asserted({ ...version, purgeSeq: seen.seq, assertedAtMs: a.assertedAtMs }, a);
  const swap = new Swap(b, fence, next, { kept: true, supersededAtMs: a.supersededAtMs });
  return reassert(b, signal, swap, seen, a, version);
}

/**
 * Changes how long the current entry is pinned, in one transaction. Neither its purge
 * sequence moves nor the time at which it was asserted: what was purged stays so. An
 * entry of another service has no place for a pin: regenerate it first.
 * @throws NoVersionError if there is no entry that could be pinned; PurgedError if a hard purge covers it, but never of unpinning
 */
export async function pin(
  b: Backend,
  signal: AbortSignal | undefined,
  record: PageRecord,
  a: Assertion,
): Promise<Entry> {
  const { entry, fence } = record;
  if (!entry) throw new NoVersionError(`the page ${a.page.key} has no entry that could be pinned: regenerate it first`);
  if (entry.foreign) {
    throw new NoVersionError(`the entry of ${a.page.key} was written by another service: regenerate the page first`);
  }
  if (a.pinnedUntilMs !== undefined) checkPurged(entry, record.cover);
  const seen = await readSequence(b, signal);
  const kept = text(fence.meta, 'current_sk') === PREFIX.version + entry.generationId;
  const swap = new Swap(b, fence, asserted(entry, a), { kept, supersededAtMs: a.supersededAtMs });
  return reassert(b, signal, swap, seen, a, undefined);
}

/** The entry with the pin and the horizon of the assertion. */
function asserted(entry: Entry, a: Assertion): Entry {
  const { pinnedUntilMs: _, ttlUnixSeconds: __, ...rest } = entry;
  const next = a.pinnedUntilMs === undefined ? rest : { ...rest, pinnedUntilMs: a.pinnedUntilMs };
  const ttlUnixSeconds = a.ttlUnixSeconds?.(next);
  return ttlUnixSeconds === undefined ? next : { ...next, ttlUnixSeconds };
}

/** Refuses a generation that a hard purge covers. */
function checkPurged(e: Entry, c: Cover): void {
  if (c.hardSeq > e.purgeSeq) {
    throw new PurgedError(
      `the generation ${e.generationId} was rendered at sequence ${e.purgeSeq} and purged for good at ${c.hardSeq}: regenerate the page`,
    );
  }
}

async function reassert(
  b: Backend,
  signal: AbortSignal | undefined,
  swap: Swap,
  seen: SeenSequence,
  a: Assertion,
  restored: Entry | undefined,
): Promise<Entry> {
  await carryOut(b, signal, new Reassertion(swap, seen, a.page, restored));
  return swap.next;
}

/** Somebody's word that a generation is to be current, which all nodes learn of by the log. */
class Reassertion implements Change {
  readonly name: string;
  readonly #swap: Swap;
  readonly #page: Target;
  /** The version that returns; undefined for a pin. */
  readonly #restored: Entry | undefined;
  /** In the log. */
  readonly #id = randomText();
  /** When it is given up, on the monotonic clock. */
  readonly #until: number;
  /** From which the next request advances. */
  #seen: SeenSequence;
  /** From which the latest one does. */
  #asked: SeenSequence;

  constructor(swap: Swap, seen: SeenSequence, page: Target, restored: Entry | undefined) {
    this.name = `rollback or pin of the generation ${swap.next.generationId} of ${swap.fence.pk}`;
    this.#swap = swap;
    this.#page = page;
    this.#restored = restored;
    this.#until = swap.backend.clock.elapsed() + swap.backend.settleTimeoutMs;
    this.#seen = seen;
    this.#asked = seen;
  }

  request(): WriteRequest {
    this.#asked = this.#seen;
    return new WriteRequest(this.#swap.backend, [
      this.#swap.moveMeta(),
      ...this.#restoreVersion(),
      ...this.#swap.retireVersion(),
      ...advance(this.#swap.backend, this.#seen, this.#id, [reloadTarget(this.#page)]),
    ]);
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

  running(): boolean {
    return this.#swap.backend.clock.elapsed() < this.#until;
  }

  async judge(why: Refusal, signal: AbortSignal): Promise<Verdict> {
    const { backend: b, fence, next } = this.#swap;
    if (why.has('meta')) {
      // Perhaps by us: DynamoDB had forgotten our token.
      if (versionOf(why.get('meta')) === this.#swap.version && (await this.landed([], signal))) return { again: false };
      return {
        again: false,
        error: new MovedError(`the entry of ${fence.pk} was changed by another writer: read it again`),
      };
    }
    if (why.has('restored')) {
      return {
        again: false,
        error: new NoVersionError(`the generation ${next.generationId} of ${fence.pk} is not kept any more`),
      };
    }
    if (why.has('superseded')) this.#swap.forget();
    // Somebody else wrote the log. The entry keeps the sequence from before: a purge in
    // between came after the rollback was asked for.
    if (why.has('sequence')) this.#seen = await readSequence(b, signal);
    return { again: true };
  }

  /**
   * Advances the sequence, with nothing to tell, unless it has moved: from then on no
   * request of ours can land, since each demands the sequence that was seen.
   */
  async preclude(cause: unknown, signal: AbortSignal): Promise<unknown> {
    const b = this.#swap.backend;
    const nothing = new WriteRequest(b, advance(b, this.#asked, randomText(), []));
    const error = await failureOf(b.calls.insist(signal, nothing.send));
    if (error !== undefined && outcomeOf(error) !== 'condition failed') throw error;
    return cause;
  }

  /**
   * Looks for our id in the log, where the latest request would have written it: there
   * was another one before it only if those until then had not happened.
   */
  landed(_sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean> {
    return passed(this.#swap.backend, signal, this.#asked, this.#id);
  }
}
