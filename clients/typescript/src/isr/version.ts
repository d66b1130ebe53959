import { DeleteItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';

import { MalformedRowError, NoVersionError } from '../errors.js';
import { outcomeOf } from '../outcome.js';
import { type Backend, failureOf, keyOf, queryAll, readRow } from './backend.js';
import type { Entry } from './entry.js';
import { isWellFormed } from './key.js';
import { contentOf } from './metarow.js';
import { PREFIX } from './names.js';
import { type Row, S, text } from './row.js';

/** How many versions one publish deletes at most: what was left earlier goes little by little. */
const mostPruned = 25;
/** How many versions are counted. */
const mostKept = 10_000;
/** The longest generation id, in bytes, that a sort key can have. */
const longestId = 1000;

/**
 * The generations that are kept of a page, the newest first. Those of other services,
 * which have no generation id, are passed over like those that are malformed: rollback
 * has no use for them.
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
 * The version row of a generation, read strongly.
 * @throws NoVersionError MalformedRowError
 */
export async function findVersion(
  b: Backend,
  signal: AbortSignal | undefined,
  pk: string,
  generationId: string,
): Promise<Entry> {
  // A text that no sort key can have names no version.
  const possible = generationId !== '' && isWellFormed(generationId) && Buffer.byteLength(generationId) <= longestId;
  const row = possible ? await readRow(b, signal, pk, PREFIX.version + generationId) : undefined;
  if (!row) {
    throw new NoVersionError(`the generation ${generationId} of ${pk} is not kept: see which are by versions()`);
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
 * Deletes superseded versions beyond the newest few, as far as that succeeds: what
 * stays is collected at its time. Ids sort by time, of clocks that may differ; whatever
 * they say, the current version stays, as it has no ttl.
 */
export async function prune(b: Backend, pk: string, keep: number): Promise<void> {
  const query = new QueryCommand({
    TableName: b.tableName,
    KeyConditionExpression: 'pk = :pk AND begins_with(sk, :prefix)',
    ExpressionAttributeValues: { ':pk': S(pk), ':prefix': S(PREFIX.version) },
    ProjectionExpression: 'sk',
    ScanIndexForward: false,
    Limit: Math.min(keep, mostKept) + mostPruned,
  });
  const failure = await failureOf(
    b.calls.call(undefined, async (abortSignal) => {
      const { Items = [] } = await b.ddb.send(query, { abortSignal });
      for (const row of Items.slice(keep)) await deleteSuperseded(b, pk, text(row, 'sk'), abortSignal);
    }),
  );
  if (failure !== undefined) b.warn('versions beyond those to be kept are left to expire', { pk, failure });
}

/** Deletes a version row, but not one that is current, or has become so again since it was found: those have no ttl. */
async function deleteSuperseded(b: Backend, pk: string, sk: string, abortSignal: AbortSignal): Promise<void> {
  const command = new DeleteItemCommand({
    TableName: b.tableName,
    Key: keyOf(pk, sk),
    ConditionExpression: 'attribute_exists(#ttl)',
    ExpressionAttributeNames: { '#ttl': 'ttl' },
  });
  const error = await failureOf(b.ddb.send(command, { abortSignal }));
  if (error !== undefined && outcomeOf(error) !== 'condition failed') throw error;
}
