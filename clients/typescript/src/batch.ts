/** Batches: many reads, or many unconditional writes, in few requests. */

import {
  BatchGetItemCommand,
  BatchWriteItemCommand,
  type DynamoDBClient,
  type WriteRequest,
} from '@aws-sdk/client-dynamodb';

import { readFailure } from './classify.js';
import {
  InvalidQueryError,
  TableNotFoundError,
  ThrottledError,
  UnknownOutcomeError,
  type Unprocessed,
} from './errors.js';
import { identityOf } from './identity.js';
import type { Item } from './item.js';
import { encodeKey, nameOf } from './marshal.js';
import type { Model } from './model.js';
import { answerOf, isThrottling, outcomeOf } from './outcome.js';
import type { Calls } from './retry.js';
import { unconditionalPutOf } from './write.js';

/** Bounds of one request, in items. */
const maxGets = 100;
const maxWrites = 25;

/** How often a request is made of which nothing at all is carried out. */
const maxFutile = 8;

/** Where batches go. */
export interface Target {
  ddb: DynamoDBClient;
  calls: Calls;
  signal: AbortSignal | undefined;
}

/** Reads items by their keys; the answer has them in the order of the keys, undefined where there is none. */
export async function batchGet(
  { ddb, calls, signal }: Target,
  model: Model,
  keys: readonly unknown[],
  consistent: boolean,
): Promise<(Item | undefined)[]> {
  const wanted = distinct(
    model,
    keys.map((key) => encodeKey(model, key)),
  );
  const found = new Map<string, Item>();
  const name = `get ${wanted.length} items of ${model.name} in table ${model.tableName}`;
  await inParts(calls, signal, maxGets, [...wanted], name, async (part) => {
    const request = { [model.tableName]: { Keys: part, ConsistentRead: consistent } };
    const answer = await calls.call(signal, (abortSignal) =>
      ddb.send(new BatchGetItemCommand({ RequestItems: request }), { abortSignal }),
    );
    for (const item of answer.Responses?.[model.tableName] ?? []) {
      found.set(identityOf(encodedKey(model, item)), item);
    }
    return answer.UnprocessedKeys?.[model.tableName]?.Keys ?? [];
  }).catch((error: unknown) => {
    throw readFailure(name, error);
  });
  return wanted.map((key) => found.get(identityOf(key)));
}

/** The key of an item as it is stored. */
function encodedKey(model: Model, item: Item): Item {
  return Object.fromEntries(model.keys.map(({ attribute }) => [attribute, item[attribute]])) as Item;
}

/** One write of a batch, and what the caller gave for it. */
interface BatchedWrite {
  key: Item;
  request: WriteRequest;
  given: unknown;
}

/** Puts and deletes items, whatever is stored; what is written stays written if the rest fails. */
export async function batchWrite({ ddb, calls, signal }: Target, model: Model, given: Unprocessed): Promise<void> {
  const writes = [
    ...given.puts.map((item) => putRequest(model, item)),
    ...given.deletes.map((key) => deleteRequest(model, key)),
  ];
  distinct(
    model,
    writes.map((write) => write.key),
  );
  const pending = new Map(writes.map((write) => [identityOf(write.key), write]));
  const name = `write ${writes.length} items of ${model.name} in table ${model.tableName}`;
  await inParts(calls, signal, maxWrites, writes, name, async (part) => {
    const request = { [model.tableName]: part.map((write) => write.request) };
    const answer = await calls.call(signal, (abortSignal) =>
      ddb.send(new BatchWriteItemCommand({ RequestItems: request }), { abortSignal }),
    );
    const left = new Set(
      (answer.UnprocessedItems?.[model.tableName] ?? []).map((write) => identityOf(keyOf(model, write))),
    );
    for (const write of part) {
      if (!left.has(identityOf(write.key))) {
        pending.delete(identityOf(write.key));
      }
    }
    return part.filter((write) => left.has(identityOf(write.key)));
  }).catch((error: unknown) => {
    throw writeBatchFailure(name, error, [...pending.values()], writes.length);
  });
}

function putRequest(model: Model, item: unknown): BatchedWrite {
  const { key, request } = unconditionalPutOf(model, item);
  return { key, given: item, request: { PutRequest: { Item: request.Item } } };
}

function deleteRequest(model: Model, given: unknown): BatchedWrite {
  const key = encodeKey(model, given);
  return { key, given, request: { DeleteRequest: { Key: key } } };
}

function keyOf(model: Model, write: WriteRequest): Item {
  return encodedKey(model, write.PutRequest?.Item ?? write.DeleteRequest?.Key ?? {});
}

/** The error of writes that were not all carried out. */
function writeBatchFailure(name: string, error: unknown, pending: BatchedWrite[], total: number): unknown {
  const isPut = (write: BatchedWrite) => write.request.PutRequest !== undefined;
  const unprocessed = {
    puts: pending.filter(isPut).map((write) => write.given),
    deletes: pending.filter((write) => !isPut(write)).map((write) => write.given),
  };
  const done = `${total - pending.length} are written, ${pending.length} are not known to be, see unprocessed`;
  if (error instanceof ThrottledError) {
    return new ThrottledError(`${name}: DynamoDB throttles; ${done}`, { cause: error.cause, unprocessed });
  }
  const failure = readFailure(name, error);
  if (pending.length === total && outcomeOf(error) === 'refused' && !(failure instanceof TableNotFoundError)) {
    return failure;
  }
  return failure instanceof TableNotFoundError
    ? failure
    : new UnknownOutcomeError(`${name}: ${done}`, { cause: error, unprocessed });
}

/**
 * Carries out a batch part by part. What comes back unprocessed goes first in the
 * next request, after a pause that gets longer while nothing at all is carried out.
 */
async function inParts<T>(
  calls: Calls,
  signal: AbortSignal | undefined,
  size: number,
  work: T[],
  name: string,
  send: (part: T[]) => Promise<T[]>,
): Promise<void> {
  let futile = 0;
  for (let pending = work; pending.length > 0; ) {
    const part = pending.slice(0, size);
    const { left, cause } = await unprocessed(part, send);
    pending = [...left, ...pending.slice(size)];
    if (left.length === 0) {
      futile = 0;
      continue;
    }
    futile = left.length === part.length ? futile + 1 : 1;
    if (futile >= maxFutile || !(await calls.pause(signal, futile))) {
      throw new ThrottledError(`${name}: DynamoDB throttles; ${pending.length} are left`, {
        cause: signal?.reason ?? cause,
      });
    }
  }
}

/** Sends a part; throttling is DynamoDB's word for nothing of it was carried out. */
async function unprocessed<T>(part: T[], send: (part: T[]) => Promise<T[]>): Promise<{ left: T[]; cause?: unknown }> {
  try {
    return { left: await send(part) };
  } catch (error) {
    const answer = answerOf(error);
    if (answer !== undefined && isThrottling(answer)) {
      return { left: part, cause: error };
    }
    throw error;
  }
}

/** Refuses a batch that names an item twice. */
function distinct(model: Model, keys: Item[]): Item[] {
  const seen = new Set<string>();
  for (const key of keys) {
    const identity = identityOf(key);
    if (seen.has(identity)) {
      throw new InvalidQueryError(`${nameOf(model, key)} is twice in the batch: a batch names an item once`);
    }
    seen.add(identity);
  }
  return keys;
}
