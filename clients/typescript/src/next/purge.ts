import { type Backend, keyOf } from '../isr/backend.js';
import { type BatchState, type LogChange, type LogQueue, maxWrites, type PlannedWrite } from '../isr/logqueue.js';
import { PURGE_LOG_PK } from '../isr/names.js';
import { type Mark, markAfterPurge, markKey, type PurgeMode, storedMark, storedMarkOf } from '../isr/purgemark.js';
import { N, type Row, S } from '../isr/row.js';
import { rowId } from '../isr/transaction.js';

/** The table, the log queue and the tenant of tag purges. */
export interface Tagged {
  backend: Backend;
  log: LogQueue;
  tenant: string;
  /** How long purge marks are kept, in seconds. */
  markLifetimeSeconds: number;
}

/**
 * Purges tags: pages with one of the tags that were rendered before are stale (soft), or must
 * not be served (hard). Up to 98 tags need one transaction of SEQ, the marks and a log row,
 * whatever the number of pages; concurrent purges share it. If this rejects, some or all of
 * the tags may not be purged.
 * @throws UnknownOutcomeError MalformedRowError; the signal's reason if part of the tags was not sent in time
 */
export async function purgeTags(
  of: Tagged,
  tags: readonly string[],
  mode: PurgeMode,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (let at = 0; at < tags.length; at += maxWrites) {
    await of.log.append(new TagPurge(of, tags.slice(at, at + maxWrites), mode), signal);
  }
}

/** The log change of a purge of up to 98 tags. */
class TagPurge implements LogChange {
  readonly name: string;
  readonly marks: readonly string[];
  readonly writes: readonly string[];
  readonly markLifetimeSeconds: number;
  readonly #of: Tagged;
  readonly #tags: readonly string[];
  readonly #mode: PurgeMode;

  constructor(of: Tagged, tags: readonly string[], mode: PurgeMode) {
    this.name = `revalidation of ${tags.length} tags, the first is ${tags[0]}`;
    this.marks = tags.map((tag) => markKey(of.tenant, tag));
    this.writes = this.marks.map((sk) => rowId(PURGE_LOG_PK, sk));
    this.markLifetimeSeconds = of.markLifetimeSeconds;
    this.#of = of;
    this.#tags = tags;
    this.#mode = mode;
  }

  plan({ seen, mark }: BatchState): PlannedWrite[] {
    const now = Math.floor(this.#of.backend.clock.now() / 1000);
    const lifetime = Math.max(seen.markLifetimeSeconds, this.markLifetimeSeconds);
    return this.#tags.map((tag) => {
      const sk = markKey(this.#of.tenant, tag);
      const before = mark(sk);
      const after = markAfterPurge(before && storedMarkOf(before), tag, seen.seq + 1, now, this.#mode);
      return this.#statement(sk, after, lifetime);
    });
  }

  /** No condition is needed: every writer of marks increments the sequence. */
  #statement(sk: string, mark: Mark, lifetime: number): PlannedWrite {
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

  /** Never called with a refusal: none of its actions has a condition. */
  refused(): undefined {
    return undefined;
  }
}
