/** Batched reads and unconditional batched writes. */

import {
  BatchGetItemCommand,
  BatchWriteItemCommand,
  type DynamoDBClient,
  type WriteRequest,
} from '@aws-sdk/client-dynamodb';

import { readFailure } from './classify.js';
import type { Encrypter } from './encrypted.js';
import {
  InvalidQueryError,
  KeyProviderError,
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
import { type PutWrite, sealed, unconditionalPutOf } from './write.js';

/** DynamoDB's limits per request, in items. */
const maxGets = 100;
const maxWrites = 25;

/** How many requests in a row may return everything unprocessed before the batch fails. */
const maxStalledRequests = 8;

/** The client and retry settings that a batch runs with. */
export interface Target {
  ddb: DynamoDBClient;
  calls: Calls;
  encrypter: Encrypter;
  signal: AbortSignal | undefined;
}

/** Reads items by key. The result is in the order of the keys, undefined for missing items. A key may occur more than once. */
export async function batchGet(
  { ddb, calls, signal }: Target,
  model: Model,
  keys: readonly unknown[],
  consistent: boolean,
): Promise<(Item | undefined)[]> {
  const places = keys.map((key) => encodeKey(model, key));
  const pending = new Map(places.map((key, i) => [identityOf(key), { key, given: keys[i] }]));
  const requested = [...pending.values()].map(({ key }) => key);
  const found = new Map<string, Item>();
  const name = `get ${requested.length} items of ${model.name} in table ${model.tableName}`;
  await inRequests(calls, signal, maxGets, requested, name, async (part) => {
    const request = { [model.tableName]: { Keys: part, ConsistentRead: consistent } };
    const answer = await calls.call(signal, (abortSignal) =>
      ddb.send(new BatchGetItemCommand({ RequestItems: request }), { abortSignal }),
    );
    for (const item of answer.Responses?.[model.tableName] ?? []) {
      found.set(identityOf(encodedKey(model, item)), item);
    }
    const left = answer.UnprocessedKeys?.[model.tableName]?.Keys ?? [];
    const leftOver = new Set(left.map(identityOf));
    for (const key of part) {
      if (!leftOver.has(identityOf(key))) pending.delete(identityOf(key));
    }
    return left;
  }).catch((error: unknown) => {
    throw readBatchFailure(
      name,
      error,
      [...pending.values()].map(({ given }) => given),
      requested.length,
    );
  });
  return places.map((key) => found.get(identityOf(key)));
}

/** Returns the error of a batch that was not read completely. */
function readBatchFailure(name: string, error: unknown, gets: unknown[], total: number): unknown {
  if (!(error instanceof ThrottledError)) {
    return readFailure(name, error);
  }
  const done = `${total - gets.length} were read, ${gets.length} were not (see unprocessed)`;
  const unprocessed = { puts: [], deletes: [], gets };
  return new ThrottledError(`${name}: throttled; ${done}`, { cause: error.cause, unprocessed });
}

/** Returns the key of a stored item. */
function encodedKey(model: Model, item: Item): Item {
  return Object.fromEntries(model.keys.map(({ attribute }) => [attribute, item[attribute]])) as Item;
}

/** The arguments of a batch write. */
export type BatchWrites = Pick<Unprocessed, 'puts' | 'deletes'>;

/** One write of a batch, with the caller's argument. */
interface BatchedWrite {
  key: Item;
  /** Undefined for a delete. It is encrypted right before it is sent. */
  put?: PutWrite;
  given: unknown;
}

/** Puts and deletes items unconditionally. Writes that succeeded stay if the rest fails. */
export async function batchWrite(target: Target, model: Model, given: BatchWrites): Promise<void> {
  const { ddb, calls, encrypter, signal } = target;
  const writes: BatchedWrite[] = [
    ...given.puts.map((item) => putWrite(model, item, calls.clock.now())),
    ...given.deletes.map((key) => ({ key: encodeKey(model, key), given: key })),
  ];
  distinct(
    model,
    writes.map((write) => write.key),
  );
  const pending = new Map(writes.map((write) => [identityOf(write.key), write]));
  const name = `write ${writes.length} items of ${model.name} in table ${model.tableName}`;
  await inRequests(calls, signal, maxWrites, writes, name, async (part) => {
    await Promise.all(
      part.map(async (write) => {
        if (write.put !== undefined) write.put = await sealed(encrypter, write.put, signal);
      }),
    );
    const request = { [model.tableName]: part.map(requestOf) };
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

function putWrite(model: Model, item: unknown, nowMs: number): BatchedWrite {
  const put = unconditionalPutOf(model, item, nowMs);
  return { key: put.key, put, given: item };
}

function requestOf({ key, put }: BatchedWrite): WriteRequest {
  return put === undefined ? { DeleteRequest: { Key: key } } : { PutRequest: { Item: put.request.Item } };
}

function keyOf(model: Model, write: WriteRequest): Item {
  return encodedKey(model, write.PutRequest?.Item ?? write.DeleteRequest?.Key ?? {});
}

/** Returns the error of a batch that was not written completely. */
function writeBatchFailure(name: string, error: unknown, pending: BatchedWrite[], total: number): unknown {
  const isPut = (write: BatchedWrite) => write.put !== undefined;
  const unprocessed = {
    puts: pending.filter(isPut).map((write) => write.given),
    deletes: pending.filter((write) => !isPut(write)).map((write) => write.given),
    gets: [],
  };
  const done = `${total - pending.length} were written, ${pending.length} may not have been (see unprocessed)`;
  if (error instanceof ThrottledError) {
    return new ThrottledError(`${name}: throttled; ${done}`, { cause: error.cause, unprocessed });
  }
  const failure = readFailure(name, error);
  const isDefinite = outcomeOf(error) === 'refused' || error instanceof KeyProviderError;
  return failure instanceof TableNotFoundError || (pending.length === total && isDefinite)
    ? failure
    : new UnknownOutcomeError(`${name}: ${done}`, { cause: error, unprocessed });
}

/**
 * Sends a batch in requests of `size` items. Unprocessed items go first in the next
 * request, after exponential backoff that resets as soon as part of a request is
 * processed.
 */
async function inRequests<T>(
  calls: Calls,
  signal: AbortSignal | undefined,
  size: number,
  work: T[],
  name: string,
  send: (part: T[]) => Promise<T[]>,
): Promise<void> {
  let stalled = 0;
  for (let pending = work; pending.length > 0; ) {
    const part = pending.slice(0, size);
    const { left, cause } = await unprocessedOf(part, send);
    pending = [...left, ...pending.slice(size)];
    if (left.length === 0) {
      stalled = 0;
      continue;
    }
    stalled = left.length === part.length ? stalled + 1 : 1;
    if (stalled >= maxStalledRequests || !(await calls.backoff(signal, stalled))) {
      throw new ThrottledError(`${name}: throttled; ${pending.length} items remain`, {
        cause: signal?.reason ?? cause,
      });
    }
  }
}

/** Sends one request and returns its unprocessed items; a throttled request processed none. */
async function unprocessedOf<T>(part: T[], send: (part: T[]) => Promise<T[]>): Promise<{ left: T[]; cause?: unknown }> {
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

/** Rejects a batch that contains an item twice. */
function distinct(model: Model, keys: Item[]): Item[] {
  const seen = new Set<string>();
  for (const key of keys) {
    const identity = identityOf(key);
    if (seen.has(identity)) {
      throw new InvalidQueryError(`${nameOf(model, key)} is in the batch twice; a batch may contain an item once`);
    }
    seen.add(identity);
  }
  return keys;
}
