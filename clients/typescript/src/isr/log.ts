import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { InvalidInputError, MalformedRowError } from '../errors.js';
import { type Backend, insistOnRow, keyOf, queryPage, readRow } from './backend.js';
import type { Change, Sequence } from './entry.js';
import { notExists, updateOf } from './expression.js';
import { PREFIX, PURGE_LOG_PK, SK } from './names.js';
import { sequenceOf } from './purgerow.js';
import { malformed, N, type Row, S, text } from './row.js';
import { type Action, onRow } from './transaction.js';

/** How long the rows of the log are kept at least, in milliseconds: a reader that was away for longer has to read everything anew. */
export const LOG_LIFE_MS = 3600 * 1000;

/** How many rows of the log one read returns at most. */
const mostChanges = 200;

/** The largest sequence that any writer can have, in 20 digits. */
const lastSequence = '09223372036854775807';

/** A page that nodes are to read again. */
export interface Target {
  tenant: string;
  key: string;
}

/** The SEQ row as it was read, to be advanced from there. */
export interface SeenSequence extends Sequence {
  /** `seq` as it is stored; undefined: there is no row. */
  readonly stored: AttributeValue | undefined;
}

/**
 * Reads the SEQ row, strongly; zeros if there is none.
 * @throws MalformedRowError
 */
export async function readSequence(b: Backend, signal: AbortSignal | undefined): Promise<SeenSequence> {
  const row = await readRow(b, signal, PURGE_LOG_PK, SK.sequence);
  if (!row) return { seq: 0, markLifetimeSeconds: 0, stored: undefined };
  return { ...sequenceOf(row), stored: row['seq'] };
}

/**
 * The changes after a sequence, in order, 200 at most, in one strongly consistent read.
 * Those of kinds that this version does not know come without what they are about. A
 * row that cannot be read is a change that is malformed: it may be what a node has to
 * know, and is no gap.
 */
export async function readChanges(b: Backend, signal: AbortSignal | undefined, after: number): Promise<Change[]> {
  if (!Number.isSafeInteger(after)) {
    throw new InvalidInputError(`after is ${after}: expected the number of a change, or 0`);
  }
  return (await readLog(b, signal, Math.max(after, 0))).map(changeOf);
}

/** The rows of the log after a sequence, in order, 200 at most, in one strongly consistent read. */
export function readLog(b: Backend, signal: AbortSignal | undefined, after: number): Promise<Row[]> {
  return queryPage(b, signal, {
    KeyConditionExpression: 'pk = :pk AND sk BETWEEN :first AND :last',
    ExpressionAttributeValues: {
      ':pk': S(PURGE_LOG_PK),
      ':first': S(logKey(after + 1)),
      ':last': S(PREFIX.log + lastSequence),
    },
    Limit: mostChanges,
  });
}

/** The sort key of what happened at a sequence. Sequences have 20 digits so that they sort. */
export function logKey(seq: number): string {
  return PREFIX.log + String(seq).padStart(20, '0');
}

function changeOf(row: Row): Change {
  const seq = Number(text(row, 'sk').slice(PREFIX.log.length));
  const known = Number.isSafeInteger(seq) && logKey(seq) === text(row, 'sk') ? seq : 0;
  try {
    if (known === 0) throw malformed(row, 'sk', 'LOG# and 20 digits');
    return { seq, reload: reloadsOf(row) };
  } catch (error) {
    if (error instanceof MalformedRowError) return { seq: known, reload: [], malformed: error };
    throw error;
  }
}

function reloadsOf(row: Row): Target[] {
  const targets = row['targets']?.L;
  if (!targets) throw malformed(row, 'targets', 'a list of maps');
  return targets.flatMap((target, i) => reloadOf(row, target, i));
}

function reloadOf(row: Row, target: AttributeValue, i: number): Target[] {
  const kind = text(target.M, 'kind');
  const key = text(target.M, 'key');
  if (kind === '' || (kind === 'reload' && key === '')) {
    throw malformed(row, 'targets', `a kind and a key at [${i}]`);
  }
  return kind === 'reload' ? [{ tenant: text(target.M, 'tenant'), key }] : [];
}

/**
 * States that the sequence after the seen one is this change's, and what it is about;
 * and, if that is said, how long marks are kept from now on at least.
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
    // No condition: whoever advances the sequence to it owns the row.
    { purpose: 'log', item: { Put: { TableName: b.tableName, Item: log } } },
  ];
}

/** What the log says of a page that nodes are to read again. */
export function reloadTarget({ tenant, key }: Target): Row {
  return { kind: S('reload'), ...(tenant ? { tenant: S(tenant) } : {}), key: S(key) };
}

/** Whether the transaction of this id is what happened after the seen sequence. It is asked once something has. */
export async function committedAs(b: Backend, signal: AbortSignal, seen: SeenSequence, id: string): Promise<boolean> {
  const row = await insistOnRow(b, signal, PURGE_LOG_PK, logKey(seen.seq + 1));
  return text(row, 'id') === id;
}
