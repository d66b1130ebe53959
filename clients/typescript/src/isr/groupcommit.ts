import { outcomeOf } from '../outcome.js';
import { type Backend, errorOf, randomText, readRows } from './backend.js';
import { execute, type Verdict, type Write } from './execute.js';
import { advance, committedAs, confirmTarget, readSequence, type SeenSequence } from './log.js';
import { PURGE_LOG_PK } from './names.js';
import { merged, type PurgeWrite, type RowPurge } from './purgewrite.js';
import type { Row } from './row.js';
import { type Action, type Refusal, WriteRequest } from './transaction.js';

/** The maximum number of rows that the changes of one transaction write: DynamoDB's 100 minus SEQ and LOG#. */
export const maxWrites = 98;

/** One write of a change, with its log targets. */
export interface PlannedWrite {
  action: Action;
  targets?: readonly Row[];
}

/** A change of the purge log: a rollback, a pin, a purge. */
export interface LogChange {
  /** Names the change in warnings. */
  readonly name: string;
  /**
   * The `rowId`s of the rows that it writes on conditions; at most {@link maxWrites} with those
   * that it purges. Changes of the same row go into separate batches.
   */
  readonly writes: readonly string[];
  /** The rows that it purges. Purges of the same row are merged. */
  readonly purges: readonly RowPurge[];
  /** Asks every process to report when it has applied the change. */
  readonly confirm: boolean;
  /** The minimum lifetime of purge marks from now on, in seconds. */
  readonly markLifetimeSeconds: number;
  /** Plans the writes on conditions; `seq` is the sequence that the change gets. */
  plan(seq: number): PlannedWrite[];
  /** Interprets its failed conditions: returns its error, or undefined to plan it again without the missing row. */
  refused(why: Refusal): Error | undefined;
}

/**
 * Group commit: all changes of the purge log that a store makes go through one queue. Every
 * change increments SEQ, so concurrent transactions would conflict; changes that arrive
 * together share a transaction instead. One leader at a time commits the waiting changes
 * while the next batch gathers:
 *
 *	rollback ─┐            ┌─► read SEQ, marks ─► Update SEQ, Put LOG#, the writes of all
 *	pin ──────┼─► waiting ─┤        ▲                  │
 *	purge ────┘   (FIFO)   └─ next  └── pause ◄── SEQ was advanced by another process
 */
export class GroupCommit {
  readonly #backend: Backend;
  #waiting: PendingChange[] = [];
  #leading = false;

  constructor(b: Backend) {
    this.#backend = b;
  }

  /**
   * Commits a change in a batch with others. If the signal is aborted before the change is
   * sent, it leaves the queue, nothing is written, and this rejects with the signal's reason.
   * After that it waits for the outcome, for at most one settle timeout of sending and one of
   * settling. Only the signal bounds the time in the queue. Resolves to the sequence of the change.
   * @throws the change's own errors; UnknownOutcomeError
   */
  append(change: LogChange, signal: AbortSignal | undefined): Promise<number> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      this.#waiting.push(new PendingChange(change, signal, resolve, reject));
      if (!this.#leading) void this.#lead();
    });
  }

  async #lead(): Promise<void> {
    this.#leading = true;
    while (this.#waiting.length > 0) await commit(this.#backend, this.#nextBatch());
    this.#leading = false;
  }

  /** Removes the changes of the next batch from the queue, in order of arrival. */
  #nextBatch(): PendingChange[] {
    const batch: PendingChange[] = [];
    const left: PendingChange[] = [];
    const rows = new Set<string>();
    const waiting = this.#waiting.filter((member) => !member.settled);
    for (const [i, member] of waiting.entries()) {
      const { writes, purges } = member.change;
      const added = [...writes, ...purges.map(({ id }) => id)].filter((row) => !rows.has(row));
      // It goes first in the next batch, so that small changes cannot starve a large one.
      if (rows.size + added.length > maxWrites) {
        left.push(...waiting.slice(i));
        break;
      }
      if (writes.some((row) => rows.has(row))) {
        left.push(member);
        continue;
      }
      for (const row of added) rows.add(row);
      batch.push(member);
    }
    this.#waiting = left;
    return batch;
  }
}

/** A change in the queue, with its caller's promise. */
class PendingChange {
  readonly change: LogChange;
  settled = false;
  #sent = false;
  readonly #resolve: (seq: number) => void;
  readonly #reject: (error: unknown) => void;
  readonly #signal: AbortSignal | undefined;

  constructor(
    change: LogChange,
    signal: AbortSignal | undefined,
    resolve: (seq: number) => void,
    reject: (error: unknown) => void,
  ) {
    this.change = change;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#signal = signal;
    signal?.addEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = () => {
    if (!this.#sent) this.reject(this.#signal?.reason);
  };

  /** Marks the change as sent: from now on only DynamoDB's outcome counts, not the signal. */
  sending(): void {
    this.#sent = true;
  }

  /** Resolves the caller's promise to the sequence of the change. */
  resolve(seq: number): void {
    if (this.#settle()) this.#resolve(seq);
  }

  reject(error: unknown): void {
    if (this.#settle()) this.#reject(error);
  }

  #settle(): boolean {
    const first = !this.settled;
    this.settled = true;
    this.#signal?.removeEventListener('abort', this.#onAbort);
    return first;
  }
}

/** Commits a batch and settles all of its members. It never rejects. */
async function commit(b: Backend, members: readonly PendingChange[]): Promise<void> {
  if (members.length === 0) return; // all callers have left
  const batch = new Batch(b, members);
  // No caller's signal: the work is shared and has its own deadline.
  const error = await errorOf(execute(b, undefined, batch));
  const left = members.filter((member) => !member.settled);
  if (error !== undefined && batch.wasSent && left.length > 1 && outcomeOf(error) === 'refused') {
    // Refused as a whole: too large, or one change is invalid. Others must not fail for it.
    for (const member of left) await commit(b, [member]);
    return;
  }
  for (const member of left) {
    if (error === undefined) member.resolve(batch.seq);
    else member.reject(error);
  }
}

/** One transaction of several changes. It requires the sequence that was read, so that at most one of its requests is applied. */
class Batch implements Write {
  readonly #backend: Backend;
  readonly #members: readonly PendingChange[];
  /** The deadline, on the monotonic clock. */
  readonly #deadline: number;
  /** The base sequence and the log id of the latest request; undefined if it was refused. */
  #latest: { seen: SeenSequence; id: string } | undefined;
  #owners = new Map<Action, PendingChange>();
  wasSent = false;

  constructor(b: Backend, members: readonly PendingChange[]) {
    this.#backend = b;
    this.#members = members;
    this.#deadline = b.clock.elapsed() + b.settleTimeoutMs;
  }

  get name(): string {
    const [first, ...others] = this.#members;
    return `${first?.change.name}${others.length > 0 ? ` and ${others.length} changes in the same transaction` : ''}`;
  }

  /** The sequence of the latest request. */
  get seq(): number {
    return (this.#latest?.seen.seq ?? 0) + 1;
  }

  running(): boolean {
    return this.#backend.clock.elapsed() < this.#deadline;
  }

  async request(): Promise<WriteRequest | undefined> {
    const b = this.#backend;
    const seen = await readSequence(b, undefined);
    const purges = await this.#purges(seen);
    const left = this.#left();
    const planned = [...this.#plan(seen.seq + 1), ...purges];
    if (planned.length === 0) return undefined; // all members are settled
    const targets = planned.flatMap((write) => write.targets ?? []);
    if (left.some((member) => member.change.confirm)) targets.push(confirmTarget);
    const id = randomText();
    const log = advance(b, seen, id, targets, this.#markLifetimeSeconds());
    const actions = [...log, ...planned.map(({ action }) => action)];
    for (const member of left) member.sending();
    this.#latest = { seen, id };
    this.wasSent = true;
    return new WriteRequest(b, actions);
  }

  #left(): PendingChange[] {
    return this.#members.filter((member) => !member.settled);
  }

  #markLifetimeSeconds(): number {
    return Math.max(...this.#left().map((member) => member.change.markLifetimeSeconds));
  }

  /** Plans the writes on conditions. */
  #plan(seq: number): PlannedWrite[] {
    this.#owners = new Map();
    return this.#left().flatMap((member) => {
      const planned = member.change.plan(seq);
      for (const { action } of planned) this.#owners.set(action, member);
      return planned;
    });
  }

  /**
   * Plans the purges, each row once. The rows that are needed are read after SEQ; a malformed one
   * rejects the members that need it.
   */
  async #purges(seen: SeenSequence): Promise<PurgeWrite[]> {
    const needed = this.#left().flatMap(({ change }) => change.purges.filter(({ needsRow }) => needsRow));
    const rows = await readRows(this.#backend, undefined, PURGE_LOG_PK, new Set(needed.map(({ sk }) => sk)));
    const lifetime = Math.max(seen.markLifetimeSeconds, this.#markLifetimeSeconds());
    const moment = { seq: seen.seq + 1, nowMs: this.#backend.clock.now(), markLifetimeSeconds: lifetime };
    const write = (purge: RowPurge) =>
      purge.write(this.#backend, moment, purge.needsRow ? rows.get(purge.sk) : undefined);
    const purges = this.#left().flatMap((member) => {
      try {
        for (const purge of member.change.purges) write(purge);
        return member.change.purges;
      } catch (error) {
        member.reject(error);
        return [];
      }
    });
    return merged(purges).map(write);
  }

  /**
   * Settles the members whose own conditions failed. The others are retried at once, or after
   * backoff if another process incremented SEQ first.
   */
  async judge(request: WriteRequest, error: unknown, doubtful: boolean, signal: AbortSignal): Promise<Verdict> {
    if (doubtful && (await this.committed([], signal))) return { retry: 'never' };
    const failed = request.failed(error);
    const whys = new Map<PendingChange, Map<Action['purpose'], Row | undefined>>();
    let contended = false;
    for (const [action, row] of failed) {
      const member = this.#owners.get(action);
      if (!member) contended = true;
      else whys.set(member, (whys.get(member) ?? new Map()).set(action.purpose, row));
    }
    for (const [member, why] of whys) {
      const refusal = member.change.refused(why);
      if (refusal) member.reject(refusal);
    }
    this.#latest = undefined; // none of our requests can be applied later
    return { retry: contended ? 'later' : 'now' };
  }

  /** Increments the sequence with an empty log row, unless it has moved: after that none of our requests can be applied. */
  async revoke(cause: unknown, signal: AbortSignal): Promise<unknown> {
    if (!this.#latest) return cause;
    const b = this.#backend;
    const nothing = new WriteRequest(b, advance(b, this.#latest.seen, randomText(), []));
    const error = await errorOf(b.calls.retryUntilAborted(signal, nothing.send));
    if (error !== undefined && outcomeOf(error) !== 'condition failed') throw error;
    return cause;
  }

  /**
   * Looks for the latest request in the log. Earlier requests need no check: a new one is
   * built only after the previous one was definitely not applied.
   */
  async committed(_sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean> {
    return this.#latest !== undefined && committedAs(this.#backend, signal, this.#latest.seen, this.#latest.id);
  }
}
