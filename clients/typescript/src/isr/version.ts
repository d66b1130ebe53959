import { DeleteItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';

import { MalformedRowError, NoVersionError } from '../errors.js';
import { outcomeOf } from '../outcome.js';
import { type Backend, errorOf, keyOf, queryAll, readRow } from './backend.js';
import type { Entry } from './entry.js';
import { isWellFormed } from './key.js';
import { contentOf } from './metarow.js';
import { PREFIX } from './names.js';
import { type Row, S, text } from './row.js';

/** The maximum number of versions that one publish deletes; a backlog shrinks with each publish. */
const maxPruned = 25;
/** The maximum number of versions that a publish can keep. */
const maxKept = 10_000;
/** The longest generation id that fits into a sort key, in bytes. */
const maxIdBytes = 1000;

/**
 * Lists the kept generations of a page, newest first. Version rows of other services, which
 * have no generation id, and malformed rows are skipped: rollback cannot use them.
 */
export async function versionsOf(b: Backend, signal: AbortSignal | undefined, pk: string): Promise<Entry[]> {
  const rows = await queryAll(b, signal, {
    KeyConditionExpression: 'pk = :pk AND begins_with(sk, :prefix)',
    ExpressionAttributeValues: { ':pk': S(pk), ':prefix': S(PREFIX.version) },
    ScanIndexForward: false, // ids sort by time
  });
  return rows.flatMap((row) => {
    try {
      return [versionOf(row)];
    } catch (error) {
      if (error instanceof MalformedRowError || error instanceof NoVersionError) return [];
      throw error;
    }
  });
}

/**
 * Reads the version of a generation, strongly consistent.
 * @throws NoVersionError MalformedRowError
 */
export async function findVersion(
  b: Backend,
  signal: AbortSignal | undefined,
  pk: string,
  generationId: string,
): Promise<Entry> {
  // An id that cannot be part of a sort key cannot exist.
  const possible = generationId !== '' && isWellFormed(generationId) && Buffer.byteLength(generationId) <= maxIdBytes;
  const row = possible ? await readRow(b, signal, pk, PREFIX.version + generationId) : undefined;
  if (!row) {
    throw new NoVersionError(`generation ${generationId} of ${pk}: not kept; versions() lists the kept generations`);
  }
  return versionOf(row);
}

function versionOf(row: Row): Entry {
  const entry = contentOf(row);
  if (entry.foreign || PREFIX.version + entry.generationId !== text(row, 'sk')) {
    throw new NoVersionError(`the row ${text(row, 'sk')} of ${text(row, 'pk')} was written by another service`);
  }
  return entry;
}

/**
 * Deletes superseded versions beyond the newest `keep`, best effort: the rest expires by its
 * ttl. Ids sort by time, subject to clock skew; the current version is never deleted, since
 * it has no ttl.
 */
export async function prune(b: Backend, pk: string, keep: number): Promise<void> {
  const query = new QueryCommand({
    TableName: b.tableName,
    KeyConditionExpression: 'pk = :pk AND begins_with(sk, :prefix)',
    ExpressionAttributeValues: { ':pk': S(pk), ':prefix': S(PREFIX.version) },
    ProjectionExpression: 'sk',
    ScanIndexForward: false,
    Limit: Math.min(keep, maxKept) + maxPruned,
  });
  const failure = await errorOf(
    b.calls.call(undefined, async (abortSignal) => {
      const { Items = [] } = await b.ddb.send(query, { abortSignal });
      for (const row of Items.slice(keep)) await deleteSuperseded(b, pk, text(row, 'sk'), abortSignal);
    }),
  );
  if (failure !== undefined) b.warn('failed to delete old versions; they will expire', { pk, failure });
}

/** Deletes a version row on condition that it has a ttl: a row without one is, or has become, current. */
async function deleteSuperseded(b: Backend, pk: string, sk: string, abortSignal: AbortSignal): Promise<void> {
  const command = new DeleteItemCommand({
    TableName: b.tableName,
    Key: keyOf(pk, sk),
    ConditionExpression: 'attribute_exists(#ttl)',
    ExpressionAttributeNames: { '#ttl': 'ttl' },
  });
  const error = await errorOf(b.ddb.send(command, { abortSignal }));
  if (error !== undefined && outcomeOf(error) !== 'condition failed') throw error;
}
