import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { InvalidInputError, MalformedRowError, TransactionConflictError } from '../errors.js';
import { type Backend, keyOf, queryPage, readRow, readSerializable, readSerializableUntilAborted } from './backend.js';
import type { Change, Mark, Sequence, Target } from './entry.js';
import { notExists, updateOf } from './expression.js';
import { markOfTarget } from './mark.js';
import { PREFIX, PURGE_LOG_PK, SK } from './names.js';
import { sequenceOf } from './purgerow.js';
import type { PurgeKind } from './purgetarget.js';
import { malformed, N, type Row, S, text } from './row.js';
import { type Action, onRow } from './transaction.js';

/** The minimum retention of log rows, in milliseconds. A reader that was away for longer must reload everything. */
export const LOG_LIFE_MS = 3600 * 1000;

/** The maximum number of log rows per read. */
const maxChanges = 200;

/** The largest sequence, 2^63 - 1, in 20 digits. */
const lastSequence = '09223372036854775807';

/** The SEQ row as it was read, the base of the next increment. */
export interface SeenSequence extends Sequence {
  /** `seq` as stored; undefined if the row does not exist. */
  readonly stored: AttributeValue | undefined;
}

/**
 * Reads the SEQ row, strongly consistent; zeros if it does not exist.
 * @throws MalformedRowError
 */
export async function readSequence(b: Backend, signal: AbortSignal | undefined): Promise<SeenSequence> {
  const row = await readRow(b, signal, PURGE_LOG_PK, SK.sequence);
  if (!row) return { seq: 0, markLifetimeSeconds: 0, stored: undefined };
  return { ...sequenceOf(row), stored: row['seq'] };
}

/**
 * Reads the changes after a sequence in order, at most 200, in one strongly consistent
 * query. Targets of unknown kinds are omitted. A malformed row is returned as a malformed
 * change, not as a gap, since it may concern the reader.
 */
export async function readChanges(b: Backend, signal: AbortSignal | undefined, after: number): Promise<Change[]> {
  if (!Number.isSafeInteger(after)) {
    throw new InvalidInputError(`after must be a sequence or 0 (got ${after})`);
  }
  return (await readLog(b, signal, Math.max(after, 0))).map(changeOf);
}

/** Reads the log rows after a sequence in order, at most 200, in one strongly consistent query. */
export async function readLog(b: Backend, signal: AbortSignal | undefined, after: number): Promise<Row[]> {
  const terms = rowsBetween(logKey(after + 1), PREFIX.log + lastSequence);
  return (await queryPage(b, signal, { ...terms, Limit: maxChanges })).rows;
}

function rowsBetween(first: string, last: string) {
  return {
    KeyConditionExpression: 'pk = :pk AND sk BETWEEN :first AND :last',
    ExpressionAttributeValues: { ':pk': S(PURGE_LOG_PK), ':first': S(first), ':last': S(last) },
  };
}

/** How many of the newest log rows a reader of the marks needs: more than one partition can write in two seconds. */
const maxRecent = 1000;

/** How many of them are read one by one, since their transactions are being committed. */
const maxTorn = 16;

/**
 * Reads the newest changes up to a sequence, newest first: the last 1,000 rows, or the last megabyte.
 * A reader of SEQ and then of marks needs them, since a purge that is being committed may be seen in
 * SEQ, and not yet in its mark (see spec/schema.md). A missing row, and all rows before it, have
 * expired, or the row is being committed: reading it in a transaction decides between the two.
 */
export async function readRecent(b: Backend, signal: AbortSignal | undefined, upTo: number): Promise<Change[]> {
  const changes: Change[] = [];
  if (upTo <= 0) return changes;
  const terms = rowsBetween(logKey(1), logKey(upTo));
  const { rows, isLast } = await queryPage(b, signal, { ...terms, ScanIndexForward: false, Limit: maxRecent });
  let next = 0;
  let torn = 0;
  for (let seq = upTo; seq > 0 && (next < rows.length || isLast); seq--) {
    let row = rows[next];
    if (row && text(row, 'sk') === logKey(seq)) {
      next++;
    } else {
      row = (await readSerializable(b, signal, PURGE_LOG_PK, [logKey(seq)])).get(logKey(seq));
      if (!row) break; // expired
      if (++torn > maxTorn) {
        throw new TransactionConflictError(
          `read the log up to ${upTo}: more than ${maxTorn} rows were being committed: try again`,
        );
      }
    }
    changes.push(changeOf(row));
  }
  return changes;
}

/** Returns the sort key of a log row. Sequences have 20 digits, so that they sort. */
export function logKey(seq: number): string {
  return PREFIX.log + String(seq).padStart(20, '0');
}

/** Parses a log row. */
export function changeOf(row: Row): Change {
  const seq = Number(text(row, 'sk').slice(PREFIX.log.length));
  const known = Number.isSafeInteger(seq) && logKey(seq) === text(row, 'sk') ? seq : 0;
  try {
    if (known === 0) throw malformed(row, 'sk', 'LOG# and 20 digits');
    return { seq, ...targetsOf(row, seq) };
  } catch (error) {
    if (error instanceof MalformedRowError) {
      return { seq: known, reload: [], marks: [], confirm: false, malformed: error };
    }
    throw error;
  }
}

const markKinds: ReadonlySet<string> = new Set<PurgeKind>(['tag', 'prefix', 'tenant', 'site']);

/** Parses the targets of a log row. Unknown kinds are skipped. */
function targetsOf(row: Row, seq: number): Pick<Change, 'reload' | 'marks' | 'confirm'> {
  const targets = row['targets']?.L;
  if (!targets) throw malformed(row, 'targets', 'a list of maps');
  const reload: Target[] = [];
  const marks: Mark[] = [];
  let confirm = false;
  for (const [i, { M: target }] of targets.entries()) {
    const kind = text(target, 'kind');
    const key = text(target, 'key');
    if (!target || kind === '' || (kind === 'reload' && key === '')) {
      throw malformed(row, 'targets', `a kind and a key at [${i}]`);
    }
    if (kind === 'reload') reload.push({ tenant: text(target, 'tenant'), key });
    else if (markKinds.has(kind)) marks.push(markOfTarget(row, target, seq));
    else confirm ||= kind === confirmKind;
  }
  return { reload, marks, confirm };
}

const confirmKind = 'confirm';

/** The log target that asks every process to report when it has applied the change. */
export const confirmTarget: Row = { kind: S(confirmKind) };

/**
 * Builds the actions that increment the sequence, log the targets at the new sequence, and
 * raise the lifetime of purge marks if it is too short.
 */
export function advance(
  b: Backend,
  seen: SeenSequence,
  id: string,
  targets: readonly Row[],
  markLifetimeSeconds = 0,
): Action[] {
  const next = seen.seq + 1;
  const unchanged = seen.stored ? { expression: 'seq = :seen', values: { ':seen': seen.stored } } : notExists;
  const lifetime =
    markLifetimeSeconds > seen.markLifetimeSeconds ? { mark_lifetime: N(markLifetimeSeconds) } : undefined;
  const log: Row = {
    ...keyOf(PURGE_LOG_PK, logKey(next)),
    id: S(id),
    targets: { L: targets.map((M) => ({ M })) },
    ttl: N(Math.ceil((b.clock.now() + LOG_LIFE_MS) / 1000)),
  };
  const sequence = updateOf({ seq: N(next), ...lifetime }, unchanged);
  return [
    { purpose: 'sequence', item: { Update: { ...onRow(b, PURGE_LOG_PK, SK.sequence), ...sequence } } },
    // No condition: the writer that increments the sequence owns its log row.
    { purpose: 'log', item: { Put: { TableName: b.tableName, Item: log } } },
  ];
}

/** Builds the log target of a page that nodes must reload. */
export function reloadTarget({ tenant, key }: Target): Row {
  return { kind: S('reload'), ...(tenant ? { tenant: S(tenant) } : {}), key: S(key) };
}

/** Reports whether the change after the seen sequence has this id. It is called once there is such a change. */
export async function committedAs(b: Backend, signal: AbortSignal, seen: SeenSequence, id: string): Promise<boolean> {
  // The transaction may still be committing the row, although the sequence has moved.
  const sk = logKey(seen.seq + 1);
  const row = (await readSerializableUntilAborted(b, signal, PURGE_LOG_PK, [sk])).get(sk);
  return text(row, 'id') === id;
}
