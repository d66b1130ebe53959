import { type Backend, keyOf } from '../isr/backend.js';
import { type LogChange, type LogQueue, mostWrites, type Statement, type Turn } from '../isr/logqueue.js';
import { type Mark, marked, markKey, type Severity, storedMark, storedMarkOf } from '../isr/mark.js';
import { PURGE_LOG_PK } from '../isr/names.js';
import { N, type Row, S } from '../isr/row.js';
import { rowId } from '../isr/transaction.js';

/** Where tags are purged, whose they are, and how long what is said of them is kept, in seconds. */
export interface Tagged {
  backend: Backend;
  log: LogQueue;
  tenant: string;
  markLifetimeSeconds: number;
}

/**
 * Says that whatever carries one of the tags and was rendered before is stale, or must
 * not be shown: SEQ, the marks and a row of the log in one transaction for up to 98
 * tags, whatever the number of pages, which purges at the same time share. It is said
 * once this resolves, and may be said in part, or not at all, if it throws.
 * @throws UnknownOutcomeError MalformedRowError; the signal's reason if a part was not sent by then
 */
export async function purgeTags(
  of: Tagged,
  tags: readonly string[],
  how: Severity,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (let at = 0; at < tags.length; at += mostWrites) {
    await of.log.append(new TagPurge(of, tags.slice(at, at + mostWrites), how), signal);
  }
}

/** The purge of some tags. */
class TagPurge implements LogChange {
  readonly name: string;
  readonly marks: readonly string[];
  readonly writes: readonly string[];
  readonly markLifetimeSeconds: number;
  readonly #of: Tagged;
  readonly #tags: readonly string[];
  readonly #how: Severity;

  constructor(of: Tagged, tags: readonly string[], how: Severity) {
    this.name = `revalidation of ${tags.length} tags, the first of which is ${tags[0]}`;
    this.marks = tags.map((tag) => markKey(of.tenant, tag));
    this.writes = this.marks.map((sk) => rowId(PURGE_LOG_PK, sk));
    this.markLifetimeSeconds = of.markLifetimeSeconds;
    this.#of = of;
    this.#tags = tags;
    this.#how = how;
  }

  state({ seen, mark }: Turn): Statement[] {
    const now = Math.floor(this.#of.backend.clock.now() / 1000);
    const lifetime = Math.max(seen.markLifetimeSeconds, this.markLifetimeSeconds);
    return this.#tags.map((tag) => {
      const sk = markKey(this.#of.tenant, tag);
      const before = mark(sk);
      const after = marked(before && storedMarkOf(before), tag, seen.seq + 1, now, this.#how);
      return this.#statement(sk, after, lifetime);
    });
  }

  /** No condition: every writer of marks advances the sequence. */
  #statement(sk: string, mark: Mark, lifetime: number): Statement {
    const { backend, tenant } = this.#of;
    const Item: Row = {
      ...keyOf(PURGE_LOG_PK, sk),
      ...storedMark(mark),
      seq: N(mark.seq),
      ttl: N(mark.at + lifetime + 1),
    };
    return {
      action: { purpose: 'log', item: { Put: { TableName: backend.tableName, Item } } },
      target: { kind: S('tag'), ...(tenant ? { tenant: S(tenant) } : {}), ...storedMark(mark) },
    };
  }

  /** No action of it has a condition. */
  refused(): undefined {
    return undefined;
  }
}
