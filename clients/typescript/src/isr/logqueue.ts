import { outcomeOf } from '../outcome.js';
import { type Backend, failureOf, randomText, readRows } from './backend.js';
import { advance, committedAs, readSequence, type SeenSequence } from './log.js';
import { PURGE_LOG_PK } from './names.js';
import { type Row, text } from './row.js';
import { execute, type Verdict, type Write } from './settle.js';
import { type Action, type Refusal, WriteRequest, writtenBy } from './transaction.js';

/** How many rows the changes of one transaction write at most: DynamoDB allows a hundred, and two are SEQ and LOG#. */
export const mostWrites = 98;

/** One write of a change, and what the log says of it. */
export interface Statement {
  action: Action;
  target?: Row;
}

/** What a batch has read when its changes state what they write. */
export interface Turn {
  /** SEQ; what the batch does happens at the sequence after it. */
  readonly seen: SeenSequence;
  /** One of the change's `marks`, as it was read after SEQ, or as an earlier change of the batch states it. */
  mark(sk: string): Row | undefined;
}

/** A change of the purge log: a rollback, a pin, a purge of tags. */
export interface LogChange {
  /** For warnings. */
  readonly name: string;
  /** The rows that it writes, as `rowId` names them; at most {@link mostWrites}. */
  readonly writes: readonly string[];
  /**
   * The sort keys of the marks that it states from what they are, without a condition.
   * Changes of one mark fit into one batch: the later of them goes on from what the
   * earlier one states. Changes of any other row wait for each other.
   */
  readonly marks: readonly string[];
  /** How long marks are kept from now on at least, in seconds. */
  readonly markLifetimeSeconds: number;
  /** States the writes. An error is the change's own, and does not touch others. */
  state(turn: Turn): Statement[];
  /** Says what its false conditions mean: its error, or undefined if it is to be stated again without what was missing. */
  refused(why: Refusal): Error | undefined;
}

/**
 * Group commit: all changes of the purge log that one store makes go through one queue.
 * Every change advances SEQ, so that two transactions at the same time refuse each
 * other; changes that arrive together share one instead. One leader at a time takes
 * what waits, and while its transaction is under way the next batch gathers:
 *
 *	rollback ─┐            ┌─► read SEQ, marks ─► Update SEQ, Put LOG#, the writes of all
 *	pin ──────┼─► waiting ─┤        ▲                  │
 *	purge ────┘   (FIFO)   └─ next  └── pause ◄── SEQ was advanced by another process
 */
export class LogQueue {
  readonly #backend: Backend;
  #waiting: Member[] = [];
  #leading = false;

  constructor(b: Backend) {
    this.#backend = b;
  }

  /**
   * Makes a change, in a batch with others. A caller whose signal is aborted before the
   * change is sent leaves the queue with the signal's reason, and nothing was written;
   * afterwards it waits for the answer, which is bounded by the settle timeout, once for
   * sending and once for settling. Only the signal bounds the time in the queue.
   * @throws the change's own errors; UnknownOutcomeError
   */
  append(change: LogChange, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      this.#waiting.push(new Member(change, signal, resolve, reject));
      if (!this.#leading) void this.#lead();
    });
  }

  async #lead(): Promise<void> {
    this.#leading = true;
    while (this.#waiting.length > 0) await commit(this.#backend, this.#take());
    this.#leading = false;
  }

  /** The changes of the next batch, in the order of their arrival. */
  #take(): Member[] {
    const taken: Member[] = [];
    const left: Member[] = [];
    const rows = new Set<string>();
    const waiting = this.#waiting.filter((member) => !member.answered);
    for (const [i, member] of waiting.entries()) {
      const { writes, marks } = member.change;
      const added = writes.filter((row) => !rows.has(row));
      // It goes first in the next batch: small changes must not overtake a large one for ever.
      if (rows.size + added.length > mostWrites) {
        left.push(...waiting.slice(i));
        break;
      }
      if (added.length < writes.length && marks.length === 0) {
        left.push(member);
        continue;
      }
      for (const row of added) rows.add(row);
      taken.push(member);
    }
    this.#waiting = left;
    return taken;
  }
}

/** A change in the queue, and who waits for its answer. */
class Member {
  readonly change: LogChange;
  answered = false;
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
    if (!this.#sent) this.answer(this.#signal?.reason);
  };

  /** It is about to be sent: from now on only DynamoDB's answer is one. */
  sending(): void {
    this.#sent = true;
  }

  /** Answers the caller: with an error, or, without one, that the change was made. */
  answer(error?: unknown): void {
    if (this.answered) return;
    this.answered = true;
    this.#signal?.removeEventListener('abort', this.#onAbort);
    if (error === undefined) this.#resolve();
    else this.#reject(error);
  }
}

/** Commits a batch, and answers all of its members. It never rejects. */
async function commit(b: Backend, members: readonly Member[]): Promise<void> {
  if (members.length === 0) return; // all have left
  const batch = new Batch(b, members);
  // No caller's signal: the work is shared, and has a deadline of its own.
  const error = await failureOf(execute(b, undefined, batch));
  const left = members.filter((member) => !member.answered);
  if (error !== undefined && batch.wasSent && left.length > 1 && outcomeOf(error) === 'refused') {
    // It is refused as a whole: too large, or one that is not valid. None may fail for another.
    for (const member of left) await commit(b, [member]);
    return;
  }
  for (const member of left) member.answer(error);
}

/** One transaction of several changes. It demands the sequence that was read, so that of several requests only one is ever carried out. */
class Batch implements Write {
  readonly #backend: Backend;
  readonly #members: readonly Member[];
  /** When it is given up, on the monotonic clock. */
  readonly #until: number;
  /** From which the latest request advances, and what it is called in the log; undefined: it was refused. */
  #asked: { seen: SeenSequence; id: string } | undefined;
  #owners = new Map<Action, Member>();
  wasSent = false;

  constructor(b: Backend, members: readonly Member[]) {
    this.#backend = b;
    this.#members = members;
    this.#until = b.clock.elapsed() + b.settleTimeoutMs;
  }

  get name(): string {
    const [first, ...others] = this.#members;
    return `${first?.change.name}${others.length > 0 ? `, and ${others.length} changes that share its transaction` : ''}`;
  }

  running(): boolean {
    return this.#backend.clock.elapsed() < this.#until;
  }

  async request(): Promise<WriteRequest | undefined> {
    const b = this.#backend;
    const seen = await readSequence(b, undefined);
    const statements = this.#state(seen, await this.#readMarks());
    if (statements.length === 0) return undefined; // all members have their answers
    const lifetime = Math.max(...this.#left().map((member) => member.change.markLifetimeSeconds));
    const targets = statements.map(({ target }) => target).filter((target) => target !== undefined);
    const id = randomText();
    const actions = [...advance(b, seen, id, targets, lifetime), ...statements.map(({ action }) => action)];
    for (const member of this.#left()) member.sending();
    this.#asked = { seen, id };
    this.wasSent = true;
    return new WriteRequest(b, actions);
  }

  #left(): Member[] {
    return this.#members.filter((member) => !member.answered);
  }

  /** The marks that the members go on from, by their sort keys. */
  #readMarks(): Promise<Map<string, Row>> {
    const sks = this.#left().flatMap((member) => member.change.marks);
    return readRows(this.#backend, undefined, PURGE_LOG_PK, sks);
  }

  /** What the members write, each row once: of several changes of a mark, the last says what all come to. */
  #state(seen: SeenSequence, marks: Map<string, Row>): Statement[] {
    const byRow = new Map<string, Statement>();
    this.#owners = new Map();
    for (const member of this.#left()) {
      try {
        for (const statement of member.change.state({ seen, mark: (sk) => marks.get(sk) })) {
          byRow.set(writtenBy(statement.action), statement);
          this.#owners.set(statement.action, member);
          const stated = statement.action.item.Put?.Item;
          if (stated && member.change.marks.length > 0) marks.set(text(stated, 'sk'), stated);
        }
      } catch (error) {
        member.answer(error);
      }
    }
    return [...byRow.values()];
  }

  /**
   * Answers the members whose own conditions were false; the others go on, at once, or,
   * if another process was faster in advancing SEQ, after a pause.
   */
  async judge(request: WriteRequest, error: unknown, doubtful: boolean, signal: AbortSignal): Promise<Verdict> {
    if (doubtful && (await this.committed([], signal))) return { again: 'never' };
    const failed = request.failed(error);
    const whys = new Map<Member, Map<Action['purpose'], Row | undefined>>();
    let contended = false;
    for (const [action, row] of failed) {
      const member = this.#owners.get(action);
      if (!member) contended = true;
      else whys.set(member, (whys.get(member) ?? new Map()).set(action.purpose, row));
    }
    for (const [member, why] of whys) {
      const refusal = member.change.refused(why);
      if (refusal) member.answer(refusal);
    }
    this.#asked = undefined; // no request of ours can be carried out any more
    return { again: contended ? 'later' : 'now' };
  }

  /** Advances the sequence with nothing to tell, unless it has moved: from then on no request of ours can be carried out. */
  async revoke(cause: unknown, signal: AbortSignal): Promise<unknown> {
    if (!this.#asked) return cause;
    const b = this.#backend;
    const nothing = new WriteRequest(b, advance(b, this.#asked.seen, randomText(), []));
    const error = await failureOf(b.calls.retryUntilAborted(signal, nothing.send));
    if (error !== undefined && outcomeOf(error) !== 'condition failed') throw error;
    return cause;
  }

  /**
   * Looks for the latest request in the log, where it would be: there were others before
   * it only if these were definitely not carried out.
   */
  async committed(_sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean> {
    return this.#asked !== undefined && committedAs(this.#backend, signal, this.#asked.seen, this.#asked.id);
  }
}
