import { outcomeOf } from '../outcome.js';
import { type Backend, errorOf, randomText, readRows } from './backend.js';
import { advance, committedAs, readSequence, type SeenSequence } from './log.js';
import { PURGE_LOG_PK } from './names.js';
import { type Row, text } from './row.js';
import { execute, type Verdict, type Write } from './settle.js';
import { type Action, type Refusal, WriteRequest, writtenBy } from './transaction.js';

/** The maximum number of rows that the changes of one transaction write: DynamoDB's 100 minus SEQ and LOG#. */
export const maxWrites = 98;

/** One write of a change, with its log target. */
export interface PlannedWrite {
  action: Action;
  target?: Row;
}

/** The rows that a batch has read before its changes plan their writes. */
export interface BatchState {
  /** SEQ; the batch gets the sequence after it. */
  readonly seen: SeenSequence;
  /** Returns one of the change's `marks`, as read after SEQ or as an earlier change of the batch writes it. */
  mark(sk: string): Row | undefined;
}

/** A change of the purge log: a rollback, a pin, a purge of tags. */
export interface LogChange {
  /** Names the change in warnings. */
  readonly name: string;
  /** The `rowId`s of the rows that it writes; at most {@link maxWrites}. */
  readonly writes: readonly string[];
  /**
   * The sort keys of the purge marks that it read-modify-writes without a condition. Changes
   * of the same mark fit into one batch: a later change builds on the earlier one's mark.
   * Changes of the same other row go into separate batches.
   */
  readonly marks: readonly string[];
  /** The minimum lifetime of purge marks from now on, in seconds. */
  readonly markLifetimeSeconds: number;
  /** Plans the writes. An error fails this change only. */
  plan(batch: BatchState): PlannedWrite[];
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
export class LogQueue {
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
   * settling. Only the signal bounds the time in the queue.
   * @throws the change's own errors; UnknownOutcomeError
   */
  append(change: LogChange, signal: AbortSignal | undefined): Promise<void> {
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
      const { writes, marks } = member.change;
      const added = writes.filter((row) => !rows.has(row));
      // It goes first in the next batch, so that small changes cannot starve a large one.
      if (rows.size + added.length > maxWrites) {
        left.push(...waiting.slice(i));
        break;
      }
      if (added.length < writes.length && marks.length === 0) {
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
  readonly #resolve: () => void;
  readonly #reject: (error: unknown) => void;
  readonly #signal: AbortSignal | undefined;

  constructor(
    change: LogChange,
    signal: AbortSignal | undefined,
    resolve: () => void,
    reject: (error: unknown) => void,
  ) {
    this.change = change;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#signal = signal;
    signal?.addEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = () => {
    if (!this.#sent) this.settle(this.#signal?.reason);
  };

  /** Marks the change as sent: from now on only DynamoDB's outcome counts, not the signal. */
  sending(): void {
    this.#sent = true;
  }

  /** Settles the caller's promise: rejects with an error, or resolves without one. */
  settle(error?: unknown): void {
    if (this.settled) return;
    this.settled = true;
    this.#signal?.removeEventListener('abort', this.#onAbort);
    if (error === undefined) this.#resolve();
    else this.#reject(error);
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
  for (const member of left) member.settle(error);
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

  running(): boolean {
    return this.#backend.clock.elapsed() < this.#deadline;
  }

  async request(): Promise<WriteRequest | undefined> {
    const b = this.#backend;
    const seen = await readSequence(b, undefined);
    const planned = this.#plan(seen, await this.#readMarks());
    if (planned.length === 0) return undefined; // all members are settled
    const lifetime = Math.max(...this.#left().map((member) => member.change.markLifetimeSeconds));
    const targets = planned.map(({ target }) => target).filter((target) => target !== undefined);
    const id = randomText();
    const actions = [...advance(b, seen, id, targets, lifetime), ...planned.map(({ action }) => action)];
    for (const member of this.#left()) member.sending();
    this.#latest = { seen, id };
    this.wasSent = true;
    return new WriteRequest(b, actions);
  }

  #left(): PendingChange[] {
    return this.#members.filter((member) => !member.settled);
  }

  /** Reads the marks that the members update, by sort key. */
  #readMarks(): Promise<Map<string, Row>> {
    const sks = this.#left().flatMap((member) => member.change.marks);
    return readRows(this.#backend, undefined, PURGE_LOG_PK, sks);
  }

  /** Plans the writes of all members, each row once: the last change of a mark includes the earlier ones. */
  #plan(seen: SeenSequence, marks: Map<string, Row>): PlannedWrite[] {
    const byRow = new Map<string, PlannedWrite>();
    this.#owners = new Map();
    for (const member of this.#left()) {
      try {
        for (const write of member.change.plan({ seen, mark: (sk) => marks.get(sk) })) {
          byRow.set(writtenBy(write.action), write);
          this.#owners.set(write.action, member);
          const put = write.action.item.Put?.Item;
          if (put && member.change.marks.length > 0) marks.set(text(put, 'sk'), put);
        }
      } catch (error) {
        member.settle(error);
      }
    }
    return [...byRow.values()];
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
      if (refusal) member.settle(refusal);
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
