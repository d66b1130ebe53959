/**
 * TheorydbClient: typed operations on the items of registered models.
 *
 * Invalid arguments throw before anything is sent. Conditions are never dropped, no read
 * becomes a scan, and values round-trip exactly. A retry after a lost reply is applied
 * once where DynamoDB supports idempotency, which is in transactions; elsewhere
 * `outcomeOf` tells whether a write may have been applied.
 */

import { randomUUID } from 'node:crypto';
import {
  DeleteItemCommand,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';

import { batchGet, batchWrite } from './batch.js';
import { readFailure, writeFailure } from './classify.js';
import { systemClock } from './clock.js';
import { isEcho } from './echo.js';
import { InvalidInputError, InvalidModelError, ItemNotFoundError } from './errors.js';
import type { RawCondition } from './expression.js';
import type { FieldOf, InputOf, ItemOf, KeyOf } from './infer.js';
import { decodeItem, encodeKey, nameOf } from './marshal.js';
import type { Model } from './model.js';
import { outcomeOf } from './outcome.js';
import { Query } from './query.js';
import { type Call, Calls, type RetryOptions } from './retry.js';
import { TokenAge } from './token.js';
import { checkToken, type ModelName, type TransactAction, transactItem, writesOf } from './transact.js';
import { createOf, deleteOf, putOf, type SingleWrite, updateOf } from './write.js';

/** Options of a client. Every member has a default. */
export interface TheorydbClientOptions<M extends Model = Model> extends RetryOptions {
  /** The models of the client; `register` adds more. */
  models?: readonly M[];
}

/** Options of every call. */
export interface CallOptions {
  /** Cancels the call. The outcome of a cancelled write is unknown. */
  signal?: AbortSignal;
}

/** Options of every read. */
export interface ReadOptions extends CallOptions {
  /** Strongly consistent reads, which cost twice as much. Default: true. */
  consistentRead?: boolean;
}

/** Options of every write of one item: an additional condition on the stored item. */
export type WriteOptions = CallOptions & RawCondition;

/** Options of a transaction. */
export interface TransactOptions extends CallOptions {
  /**
   * The idempotency token, 1 to 36 characters. DynamoDB applies a transaction that is sent
   * twice within ten minutes under one token once. Default: a random token.
   */
  clientRequestToken?: string;
}

/** The model types of a client after `register`: only the new ones if none were known before. */
type Registered<M extends Model, N extends Model> = Model extends M ? N : M | N;

/** The model with a name. */
type Named<M extends Model, N> = N extends Model ? N : Model extends M ? Model : Extract<M, { name: N }>;

/**
 * A client for the items of some models. Only `register` changes it. It holds no
 * connections of its own and need not be closed.
 */
export class TheorydbClient<M extends Model = Model> {
  readonly #ddb: DynamoDBClient;
  readonly #calls: Calls;
  readonly #models = new Map<string, Model>();

  /** @throws InvalidModelError if two models have the same name. */
  constructor(ddb: DynamoDBClient, options: TheorydbClientOptions<M> = {}) {
    if (typeof ddb?.send !== 'function') {
      throw new InvalidInputError(
        'the first argument of TheorydbClient must be a DynamoDBClient of @aws-sdk/client-dynamodb',
      );
    }
    this.#ddb = ddb;
    this.#calls = new Calls(systemClock(), options);
    this.register(...(options.models ?? []));
  }

  /**
   * Registers models and returns this client, typed with them.
   *
   * @throws InvalidModelError if another model has the same name.
   */
  register<const N extends readonly Model[]>(...models: N): TheorydbClient<Registered<M, N[number]>> {
    for (const model of models) {
      const known = this.#models.get(model.name);
      if (known !== undefined && known !== model) {
        throw new InvalidModelError(
          `another model named ${model.name} is already registered; names must be unique within a client`,
        );
      }
      this.#models.set(model.name, model);
    }
    return this as unknown as TheorydbClient<Registered<M, N[number]>>;
  }

  /**
   * Reads one item.
   *
   * @throws ItemNotFoundError if it does not exist, MalformedRowError if it does not match the model.
   */
  async get<N extends ModelName<M>>(
    model: N,
    key: KeyOf<Named<M, N>>,
    options: ReadOptions = {},
  ): Promise<ItemOf<Named<M, N>>> {
    const found = await this.getOrNull(model, key, options);
    if (found === null) {
      const known = this.#model(model);
      throw new ItemNotFoundError(
        `get ${nameOf(known, encodeKey(known, key))} in table ${known.tableName}: no such item`,
      );
    }
    return found;
  }

  /** Reads one item; null if it does not exist. */
  async getOrNull<N extends ModelName<M>>(
    model: N,
    key: KeyOf<Named<M, N>>,
    options: ReadOptions = {},
  ): Promise<ItemOf<Named<M, N>> | null> {
    const known = this.#model(model);
    const Key = encodeKey(known, key);
    const command = new GetItemCommand({
      TableName: known.tableName,
      Key,
      ConsistentRead: options.consistentRead ?? true,
    });
    options.signal?.throwIfAborted();
    const answer = await this.#read(`get ${nameOf(known, Key)} in table ${known.tableName}`, options, (abortSignal) =>
      this.#ddb.send(command, { abortSignal }),
    );
    return answer.Item === undefined ? null : (decodeItem(known, answer.Item) as ItemOf<Named<M, N>>);
  }

  /**
   * Stores an item, replacing the stored one. With a version, the stored item must be
   * unchanged since it was read; an item whose version is missing must be new.
   *
   * @returns the item with its new version.
   * @throws VersionConflictError, ConditionFailedError, UnknownOutcomeError, …
   */
  async put<N extends ModelName<M>>(
    model: N,
    item: InputOf<Named<M, N>>,
    options: WriteOptions = {},
  ): Promise<ItemOf<Named<M, N>>> {
    const known = this.#model(model);
    return this.#store(known, item, putOf(known, item, options), options);
  }

  /**
   * Stores an item that must not exist.
   *
   * @returns the item with its version, 1 unless it had one.
   * @throws ConditionFailedError if it exists.
   */
  async create<N extends ModelName<M>>(
    model: N,
    item: InputOf<Named<M, N>>,
    options: WriteOptions = {},
  ): Promise<ItemOf<Named<M, N>>> {
    const known = this.#model(model);
    return this.#store(known, item, createOf(known, item, options), options);
  }

  /**
   * Sets the attributes in `fields` of an existing item to the values in `item`, and
   * removes those that are undefined there. All other attributes stay. With a version, the
   * stored item must be unchanged since it was read.
   *
   * @returns `item` with the new version.
   * @throws ConditionFailedError if the item does not exist, VersionConflictError
   */
  async update<N extends ModelName<M>, I extends KeyOf<Named<M, N>> & Partial<ItemOf<Named<M, N>>>>(
    model: N,
    item: I,
    fields: readonly FieldOf<Named<M, N>>[],
    options: WriteOptions = {},
  ): Promise<I> {
    const known = this.#model(model);
    return this.#store(known, item, updateOf(known, item, fields, options), options);
  }

  /**
   * Deletes an item. Deleting a missing item is not an error. If the key comes with a
   * version, the stored item must have it.
   *
   * @throws VersionConflictError, ConditionFailedError
   */
  async delete<N extends ModelName<M>>(
    model: N,
    key: KeyOf<Named<M, N>> & Partial<ItemOf<Named<M, N>>>,
    options: WriteOptions = {},
  ): Promise<void> {
    await this.#send(deleteOf(this.#model(model), key, options), options);
  }

  /** Starts a query of one partition. */
  query<N extends ModelName<M>>(model: N): Query<Named<M, N>> {
    return new Query({ ddb: this.#ddb, calls: this.#calls }, this.#model(model) as Named<M, N>);
  }

  /**
   * Reads items by key, in as few requests as possible.
   *
   * @returns the items in the order of the keys, undefined for missing items.
   * @throws ThrottledError if DynamoDB repeatedly leaves keys unprocessed.
   */
  async batchGet<N extends ModelName<M>>(
    model: N,
    keys: readonly KeyOf<Named<M, N>>[],
    options: ReadOptions = {},
  ): Promise<(ItemOf<Named<M, N>> | undefined)[]> {
    const known = this.#model(model);
    const target = { ddb: this.#ddb, calls: this.#calls, signal: options.signal };
    const found = await batchGet(target, known, keys, options.consistentRead ?? true);
    return found.map((item) => item && (decodeItem(known, item) as ItemOf<Named<M, N>>));
  }

  /**
   * Puts and deletes items unconditionally: DynamoDB's batches have no conditions. Versions
   * are incremented, so that a later conditional write detects the change.
   *
   * @throws ThrottledError or UnknownOutcomeError; `unprocessed` lists the writes that are
   * not known to be applied. The others were applied.
   */
  async batchWrite<N extends ModelName<M>>(
    model: N,
    writes: { puts?: readonly InputOf<Named<M, N>>[]; deletes?: readonly KeyOf<Named<M, N>>[] },
    options: CallOptions = {},
  ): Promise<void> {
    const target = { ddb: this.#ddb, calls: this.#calls, signal: options.signal };
    await batchWrite(target, this.#model(model), { puts: writes.puts ?? [], deletes: writes.deletes ?? [] });
  }

  /**
   * Applies all actions or none. A transaction that was cancelled only for transient
   * reasons, or whose reply was lost, is retried a few times as the same request with the
   * same client token, so that it is applied at most once.
   *
   * @throws ConditionFailedError (VersionConflictError) with a reason per action,
   * TransactionConflictError, ThrottledError, UnknownOutcomeError
   */
  async transactWrite(actions: readonly TransactAction<M>[], options: TransactOptions = {}): Promise<void> {
    checkToken(options.clientRequestToken);
    const writes = writesOf(actions, (model) => this.#model(model));
    const command = new TransactWriteItemsCommand({
      ClientRequestToken: options.clientRequestToken ?? randomUUID(),
      TransactItems: writes.map(transactItem),
    });
    options.signal?.throwIfAborted();
    const age = new TokenAge(this.#calls.clock);
    let unanswered: unknown;
    try {
      await this.#calls.retry(options.signal, async (abortSignal) => {
        age.check();
        await this.#ddb.send(command, { abortSignal }).catch((error: unknown) => {
          if (outcomeOf(error) === 'unknown') unanswered = error;
          throw error;
        });
      });
    } catch (error) {
      // A refusal, such as expired credentials, says nothing about an earlier unanswered attempt.
      const decisive = outcomeOf(error) === 'refused' ? (unanswered ?? error) : error;
      const preconditions = writes.map((write) => write.precondition);
      throw writeFailure(`write a transaction of ${writes.length} actions`, preconditions, decisive);
    }
  }

  async #read<T>(name: string, options: CallOptions, call: Call<T>): Promise<T> {
    try {
      return await this.#calls.call(options.signal, call);
    } catch (error) {
      throw readFailure(name, error);
    }
  }

  async #store<I>(model: Model, item: unknown, write: SingleWrite, options: CallOptions): Promise<I> {
    await this.#send(write, options);
    const stored = { ...(item as object) };
    return (model.version === undefined ? stored : { ...stored, [model.version.attribute]: write.version }) as I;
  }

  /**
   * Sends one write, without retries of our own: an unanswered write may have been applied.
   * The SDK does retry, so a failed condition may be the echo of its first attempt; the
   * stored item then decides, if it can.
   */
  async #send(write: SingleWrite, options: CallOptions): Promise<void> {
    options.signal?.throwIfAborted();
    try {
      await this.#calls.call(options.signal, (abortSignal) => send(this.#ddb, write, abortSignal));
    } catch (error) {
      if (!isEcho(write, error)) throw writeFailure(write.precondition.name, [write.precondition], error);
    }
  }

  #model(model: string | Model): Model {
    const known = typeof model === 'string' ? this.#models.get(model) : model;
    if (known?.attributes === undefined) {
      const names = [...this.#models.keys()].join(', ') || 'none';
      throw new InvalidModelError(
        `the model ${String(model)} is not registered (registered: ${names}); pass it in models, or to register`,
      );
    }
    return known;
  }
}

function send(ddb: DynamoDBClient, write: SingleWrite, abortSignal: AbortSignal): Promise<unknown> {
  switch (write.kind) {
    case 'put':
      return ddb.send(new PutItemCommand(write.request), { abortSignal });
    case 'update':
      return ddb.send(new UpdateItemCommand(write.request), { abortSignal });
    case 'delete':
      return ddb.send(new DeleteItemCommand(write.request), { abortSignal });
  }
}
