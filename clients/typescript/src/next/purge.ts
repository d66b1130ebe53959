import { UnknownOutcomeError } from '../errors.js';
import { type Backend, failureOf, keyOf, randomText, readRow } from '../isr/backend.js';
import { advance, passed, readSequence, type SeenSequence } from '../isr/log.js';
import { PURGE_LOG_PK } from '../isr/names.js';
import { countKind, N, type Row, read, S } from '../isr/row.js';
import { type Change, carryOut, type Verdict } from '../isr/settle.js';
import { type Action, type Refusal, WriteRequest } from '../isr/transaction.js';
import { outcomeOf } from '../outcome.js';
import { type Mark, marked, markKey, markOf, type Severity, storedMark } from './mark.js';

/** How many tags one transaction marks: DynamoDB allows a hundred writes. */
const mostTags = 90;

/** Whose tags, and how long what is said of them is kept, in seconds. */
export interface Tagged {
  tenant: string;
  markLifetimeSeconds: number;
}

/**
 * Says that whatever carries one of the tags and was rendered before is stale, or must
 * not be shown: one transaction of SEQ, the marks and a row of the log for up to 90
 * tags, whatever the number of pages. It is said once this resolves, and may be said in
 * part, or not at all, if it throws.
 * @throws UnknownOutcomeError
 */
export async function purgeTags(b: Backend, of: Tagged, tags: readonly string[], how: Severity): Promise<void> {
  for (let at = 0; at < tags.length; at += mostTags) {
    const some = tags.slice(at, at + mostTags);
    await carryOut(b, undefined, new Purge(b, of, some, how, await look(b, of.tenant, some)));
  }
}

/** SEQ, and what was said of the tags before: SEQ first, as every mark that is written later raises it. */
interface Seen {
  sequence: SeenSequence;
  marks: ReadonlyMap<string, Mark>;
}

async function look(b: Backend, tenant: string, tags: readonly string[]): Promise<Seen> {
  const sequence = await readSequence(b, undefined);
  const rows = await Promise.all(tags.map((tag) => readRow(b, undefined, PURGE_LOG_PK, markKey(tenant, tag))));
  const found = rows.filter((row) => row !== undefined).map(storedBefore);
  return { sequence, marks: new Map(found.map((mark) => [mark.value, mark])) };
}

function storedBefore(row: Row): Mark {
  return { ...markOf(row), seq: read(row, 'seq', countKind) };
}

/** One transaction. It demands the sequence that was seen, so that of several only one is ever carried out. */
class Purge implements Change {
  readonly name: string;
  readonly #backend: Backend;
  readonly #of: Tagged;
  readonly #tags: readonly string[];
  readonly #how: Severity;
  /** In the log. */
  readonly #id = randomText();
  /** When it is given up, on the monotonic clock. */
  readonly #until: number;
  /** From which the next request advances, and the latest one does. */
  #seen: Seen;
  #asked: Seen;

  constructor(b: Backend, of: Tagged, tags: readonly string[], how: Severity, seen: Seen) {
    this.name = `revalidation of ${tags.length} tags, the first of which is ${tags[0]}`;
    this.#backend = b;
    this.#of = of;
    this.#tags = tags;
    this.#how = how;
    this.#until = b.clock.elapsed() + b.settleTimeoutMs;
    this.#seen = seen;
    this.#asked = seen;
  }

  request(): WriteRequest {
    this.#asked = this.#seen;
    const seq = this.#asked.sequence.seq + 1;
    const now = Math.floor(this.#backend.clock.now() / 1000);
    const marks = this.#tags.map((tag) => marked(this.#asked.marks.get(tag), tag, seq, now, this.#how));
    const targets = marks.map((mark) => this.#target(mark));
    return new WriteRequest(this.#backend, [...this.#advance(this.#id, targets), ...marks.map((m) => this.#mark(m))]);
  }

  #advance(id: string, targets: readonly Row[]): Action[] {
    return advance(this.#backend, this.#asked.sequence, id, targets, this.#of.markLifetimeSeconds);
  }

  #target(mark: Mark): Row {
    const { tenant } = this.#of;
    return { kind: S('tag'), ...(tenant ? { tenant: S(tenant) } : {}), ...storedMark(mark) };
  }

  /** No condition: every writer of marks advances the sequence. */
  #mark(mark: Mark): Action {
    const b = this.#backend;
    const lifetime = Math.max(this.#asked.sequence.markLifetimeSeconds, this.#of.markLifetimeSeconds);
    const Item: Row = {
      ...keyOf(PURGE_LOG_PK, markKey(this.#of.tenant, mark.value)),
      ...storedMark(mark),
      seq: N(mark.seq),
      ttl: N(mark.at + lifetime + 1),
    };
    return { purpose: 'log', item: { Put: { TableName: b.tableName, Item } } };
  }

  running(): boolean {
    return this.#backend.clock.elapsed() < this.#until;
  }

  /** Somebody else wrote the log: perhaps an earlier request of ours, which `landed` finds. */
  async judge(why: Refusal, signal: AbortSignal): Promise<Verdict> {
    if (await this.landed([], signal)) return { again: false };
    if (!why.has('sequence')) return { again: false, error: new UnknownOutcomeError(`the ${this.name} was refused`) };
    this.#seen = await look(this.#backend, this.#of.tenant, this.#tags);
    return { again: true };
  }

  /** Advances the sequence with nothing to tell, unless it has moved: from then on no request of ours can land. */
  async preclude(cause: unknown, signal: AbortSignal): Promise<unknown> {
    const nothing = new WriteRequest(this.#backend, this.#advance(randomText(), []));
    const error = await failureOf(this.#backend.calls.insist(signal, nothing.send));
    if (error !== undefined && outcomeOf(error) !== 'condition failed') throw error;
    return cause;
  }

  landed(_sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean> {
    return passed(this.#backend, signal, this.#asked.sequence, this.#id);
  }
}
