import { MovedError, NoVersionError, PurgedError } from '../errors.js';
import { type Backend, readSerializable } from './backend.js';
import type { Entry, PurgeState, Target } from './entry.js';
import { updateOf } from './expression.js';
import { mergePurgeStates, NEVER_PURGED, outlivesMarks } from './freshness.js';
import type { GroupCommit, LogChange, PlannedWrite } from './groupcommit.js';
import { readRecent, readSequence, reloadTarget } from './log.js';
import { covering, purgeStateOfMark } from './mark.js';
import { PREFIX, SK } from './names.js';
import { purgeStateOf } from './purgerow.js';
import { covers } from './purgetarget.js';
import type { PageRecord } from './record.js';
import { S, text } from './row.js';
import { Swap } from './swap.js';
import { type Action, onRow, type Refusal, writtenBy } from './transaction.js';
import { findVersion } from './version.js';

/** The arguments of a rollback or a pin. */
export interface Assertion {
  /** The page, for the log. */
  page: Target;
  /** When it was declared. */
  assertedAtMs: number;
  /** The end of the pin; absent: not pinned. */
  pinnedUntilMs?: number | undefined;
  /** Returns the ttl of the entry, in epoch seconds; undefined for none. */
  ttlUnixSeconds?: (entry: Entry) => number | undefined;
  /** When the superseded version may be garbage collected. Default: with the entry, but after a month at the latest. */
  supersededAtMs?: number | undefined;
}

/** The table and the log queue that assertions go to. */
export interface AssertionContext {
  readonly backend: Backend;
  readonly log: GroupCommit;
}

/**
 * Makes a kept generation current, in one transaction, on condition that the entry is
 * unchanged since it was read. It needs no lease: a regeneration in progress fails on the
 * fence. A generation that is already current is only pinned, see {@link pin}.
 * @throws NoVersionError PurgedError MovedError UnknownOutcomeError MalformedRowError
 */
export async function rollback(
  on: AssertionContext,
  signal: AbortSignal | undefined,
  record: PageRecord,
  to: string,
  a: Assertion,
): Promise<Entry> {
  const { backend: b } = on;
  const { entry, fence } = record;
  if (entry && !entry.foreign && entry.generationId === to) return pin(on, signal, record, a);
  // SEQ first: a hard purge that was not yet made when PURGE and the marks are read has a higher
  // sequence, and so covers the restored entry, whatever SEQ is at the commit. One that is being
  // committed is waited for, or found in the log.
  const { seq, markLifetimeSeconds } = await readSequence(b, signal);
  const purge = (await readSerializable(b, signal, fence.pk, [SK.purge])).get(SK.purge);
  const version = await findVersion(b, signal, fence.pk, to);
  checkWithdrawn(version, a.page.key);
  const recent = await recentPurges(b, signal, a.page, version.tags, seq);
  const marks = await covering(b, signal, a.page, version.tags);
  checkPurged(version, [record.purge, purge ? purgeStateOf(purge) : NEVER_PURGED, recent, marks]);
  if (outlivesMarks(version, markLifetimeSeconds, b.clock.now())) {
    throw new PurgedError(
      `generation ${to}: older than the kept purge marks, so a purge of it may have been forgotten; regenerate the page`,
    );
  }
  const next = withAssertion({ ...version, purgeSeq: seq, assertedAtMs: a.assertedAtMs }, a.pinnedUntilMs, a);
  const swap = new Swap(b, fence, next, { kept: true, supersededAtMs: a.supersededAtMs });
  return assertGeneration(on, signal, swap, a, version);
}

/**
 * Changes the pin of the current entry, in one transaction. The purge sequence and the
 * assertion time stay: a purged entry stays purged. Another service's entry cannot carry a
 * pin: regenerate it first.
 *
 * Unpinning keeps the end of the pin, at most now: by it readers know that the entry was
 * pinned and may be served on failure until a render succeeds.
 * @throws NoVersionError if there is no entry to pin; PurgedError if a hard purge covers it, but never for unpinning
 */
export async function pin(
  on: AssertionContext,
  signal: AbortSignal | undefined,
  record: PageRecord,
  a: Assertion,
): Promise<Entry> {
  const { backend: b } = on;
  const { entry, fence } = record;
  if (!entry) throw new NoVersionError(`the page ${a.page.key} has no entry to pin: regenerate it first`);
  if (entry.foreign) {
    throw new NoVersionError(`the entry of ${a.page.key} was written by another service: regenerate the page first`);
  }
  checkWithdrawn(entry, a.page.key);
  if (a.pinnedUntilMs !== undefined) {
    checkPurged(entry, [record.purge, await covering(b, signal, a.page, entry.tags)]);
  }
  const kept = text(fence.meta, 'current_sk') === PREFIX.version + entry.generationId;
  const next = withAssertion(entry, a.pinnedUntilMs ?? pinEndedNow(entry, b.clock.now()), a);
  const swap = new Swap(b, fence, next, { kept, supersededAtMs: a.supersededAtMs });
  return assertGeneration(on, signal, swap, a, undefined);
}

/** Merges the marks in the newest rows of the log, up to a sequence, that cover a page with these tags. */
async function recentPurges(
  b: Backend,
  signal: AbortSignal | undefined,
  page: Target,
  tags: readonly string[],
  upTo: number,
): Promise<PurgeState> {
  const changes = await readRecent(b, signal, upTo);
  const now = b.clock.now();
  return changes
    .flatMap(({ marks }) => marks.filter((mark) => covers(mark, page, tags)))
    .map((mark) => purgeStateOfMark(mark, now))
    .reduce(mergePurgeStates, NEVER_PURGED);
}

/** Rejects a withdrawn entry: it must not become current again. @throws NoVersionError */
function checkWithdrawn(entry: Entry, key: string): void {
  if (entry.withdrawn) {
    throw new NoVersionError(
      `the page ${key} was withdrawn by its origin: roll back to an older generation, or regenerate it`,
    );
  }
}

/** Returns the end of a pin that is ended now, in whole seconds; undefined if there is no pin. */
function pinEndedNow({ pinnedUntilMs }: Entry, nowMs: number): number | undefined {
  return pinnedUntilMs === undefined ? undefined : Math.min(pinnedUntilMs, Math.floor(nowMs / 1000) * 1000);
}

/** Returns the entry with the pin and the ttl of the assertion. */
function withAssertion(entry: Entry, pinnedUntilMs: number | undefined, a: Assertion): Entry {
  const { pinnedUntilMs: _, ttlUnixSeconds: __, ...rest } = entry;
  const next = pinnedUntilMs === undefined ? rest : { ...rest, pinnedUntilMs };
  const ttlUnixSeconds = a.ttlUnixSeconds?.(next);
  return ttlUnixSeconds === undefined ? next : { ...next, ttlUnixSeconds };
}

/** Rejects a generation that a hard purge purges. */
function checkPurged(e: Entry, purges: readonly PurgeState[]): void {
  const { hardSeq } = purges.reduce(mergePurgeStates);
  if (hardSeq > e.purgeSeq) {
    throw new PurgedError(
      `generation ${e.generationId}: rendered at sequence ${e.purgeSeq} and hard purged at ${hardSeq}; regenerate the page`,
    );
  }
}

async function assertGeneration(
  { log }: AssertionContext,
  signal: AbortSignal | undefined,
  swap: Swap,
  a: Assertion,
  restored: Entry | undefined,
): Promise<Entry> {
  await log.append(new AssertionChange(swap, a.page, restored), signal);
  return swap.next;
}

/** Makes a generation current, and notifies all nodes through the log. */
class AssertionChange implements LogChange {
  readonly name: string;
  readonly writes: readonly string[];
  readonly purges = [];
  readonly confirm = false;
  readonly markLifetimeSeconds = 0;
  readonly #swap: Swap;
  readonly #page: Target;
  /** The version that a rollback restores; undefined for a pin. */
  readonly #restored: Entry | undefined;

  constructor(swap: Swap, page: Target, restored: Entry | undefined) {
    this.name = `rollback or pin of the generation ${swap.next.generationId} of ${swap.fence.pk}`;
    this.#swap = swap;
    this.#page = page;
    this.#restored = restored;
    this.writes = this.plan().map(({ action }) => writtenBy(action));
  }

  plan(): PlannedWrite[] {
    const others = [...this.#restoreVersion(), ...this.#swap.expireSuperseded()];
    return [
      { action: this.#swap.updateMeta(), targets: [reloadTarget(this.#page)] },
      ...others.map((action) => ({ action })),
    ];
  }

  /**
   * Removes the ttl of the restored version, on condition that it still exists: META must
   * not point at a deleted row.
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
      return new NoVersionError(`generation ${next.generationId} of ${fence.pk}: no longer kept`);
    }
    this.#swap.dropSuperseded(); // only the superseded version has been deleted
    return undefined;
  }
}
