/**
 * TheorydbClient: typed calls on the items of registered models.
 *
 * Each call either does what it says or is an error that was thrown before anything
 * was sent. Conditions are never dropped, no read becomes a scan, values come back as
 * they went in. What is sent twice because an answer was lost happens once where
 * DynamoDB can know it, in transactions; elsewhere `outcomeOf` tells whether a write
 * can have happened.
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

/** Adjusts a client; every member has a default. */
export interface TheorydbClientOptions<M extends Model = Model> extends RetryOptions {
  /** The models of the client; more can be registered. */
  models?: readonly M[];
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call. Whether a write that was ended happened is unknown. */
  signal?: AbortSignal;
}

/** What every read takes. */
export interface ReadOptions extends CallOptions {
  /** Whether every write that was answered before is seen. Default: true, which costs twice as much. */
  consistentRead?: boolean;
}

/** What every write of one item takes: what the stored item has to be besides. */
export type WriteOptions = CallOptions & RawCondition;

/** What a transaction takes. */
export interface TransactOptions extends CallOptions {
  /**
   * By which DynamoDB knows a transaction that is sent twice within ten minutes, 1 to
   * 36 characters. Default: a random one.
   */
  clientRequestToken?: string;
}

/** The models of a client to which others were added: those alone, if it had none that are known. */
type Registered<M extends Model, N extends Model> = Model extends M ? N : M | N;

/** The model that a name stands for. */
type Named<M extends Model, N> = N extends Model ? N : Model extends M ? Model : Extract<M, { name: N }>;

/**
 * A client for the items of some models. It is never changed but by `register`, holds
 * no connections of its own, and need not be closed.
 */
export class TheorydbClient<M extends Model = Model> {
  readonly #ddb: DynamoDBClient;
  readonly #calls: Calls;
  readonly #models = new Map<string, Model>();

  /** @throws InvalidModelError if two models have one name. */
  constructor(ddb: DynamoDBClient, options: TheorydbClientOptions<M> = {}) {
    if (typeof ddb?.send !== 'function') {
      throw new InvalidInputError('a TheorydbClient takes a DynamoDBClient of @aws-sdk/client-dynamodb first');
    }
    this.#ddb = ddb;
    this.#calls = new Calls(systemClock(), options);
    this.register(...(options.models ?? []));
  }

  /**
   * Registers models, and returns the client as one that knows their types.
   *
   * @throws InvalidModelError if another model has the name.
   */
  register<const N extends readonly Model[]>(...models: N): TheorydbClient<Registered<M, N[number]>> {
    for (const model of models) {
      const known = this.#models.get(model.name);
      if (known !== undefined && known !== model) {
        throw new InvalidModelError(
          `another model is registered as ${model.name} already; models of one client have names of their own`,
        );
      }
      this.#models.set(model.name, model);
    }
    return this as unknown as TheorydbClient<Registered<M, N[number]>>;
  }

  /**
   * Reads one item.
   *
   * @throws ItemNotFoundError if there is none, MalformedRowError if it is not as the model says.
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
        `get ${nameOf(known, encodeKey(known, key))} in table ${known.tableName}: there is no such item`,
      );
    }
    return found;
  }

  /** Reads one item; null if there is none. */
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
   * Stores a whole item over whatever is there. With a version it has to be as it was
   * read; an item without one has to be new.
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
   * Stores an item that may not exist yet.
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
   * Sets attributes of an item that exists, by name, to what `item` has, and removes
   * those that are undefined there. Attributes that are not named, or that the model
   * does not know, stay as they are. With a version the item has to be as it was read.
   *
   * @returns what was given, with the new version.
   * @throws ConditionFailedError if there is no such item, VersionConflictError
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
   * Deletes an item; that there is none is no error. A version that is given with the
   * key is demanded.
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

  /** Begins a query of one partition. */
  query<N extends ModelName<M>>(model: N): Query<Named<M, N>> {
    return new Query({ ddb: this.#ddb, calls: this.#calls }, this.#model(model) as Named<M, N>);
  }

  /**
   * Reads items by their keys, in as few requests as there can be.
   *
   * @returns the items in the order of the keys, undefined where there is none.
   * @throws ThrottledError if DynamoDB leaves keys unprocessed again and again.
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
   * Puts and deletes items, whatever is stored: batches cannot demand anything. A
   * version is counted, so that who read the item notices.
   *
   * @throws ThrottledError or UnknownOutcomeError, whose `unprocessed` has what is not
   * known to be written; the rest is, and stays so.
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
   * Carries out actions, all or none of them. A transaction that was cancelled only
   * for reasons that pass, or whose answer was lost, is sent again, a few times at
   * most, as the same request with the same token: so it happens at most once.
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
      await this.#calls.try(options.signal, async (abortSignal) => {
        age.check();
        await this.#ddb.send(command, { abortSignal }).catch((error: unknown) => {
          if (outcomeOf(error) === 'unknown') unanswered = error;
          throw error;
        });
      });
    } catch (error) {
      // A refusal, by credentials that have expired meanwhile, says nothing of an attempt before it.
      const decisive = outcomeOf(error) === 'refused' ? (unanswered ?? error) : error;
      const demands = writes.map((write) => write.demand);
      throw writeFailure(`write a transaction of ${writes.length} actions`, demands, decisive);
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
   * Sends one write, once: what was not answered may have happened. The SDK repeats it by
   * itself, so that a false condition may be the work of its own first attempt: then the
   * stored item tells, or nothing does.
   */
  async #send(write: SingleWrite, options: CallOptions): Promise<void> {
    options.signal?.throwIfAborted();
    try {
      await this.#calls.call(options.signal, (abortSignal) => send(this.#ddb, write, abortSignal));
    } catch (error) {
      if (!isEcho(write, error)) throw writeFailure(write.demand.name, [write.demand], error);
    }
  }

  #model(model: string | Model): Model {
    const known = typeof model === 'string' ? this.#models.get(model) : model;
    if (known?.attributes === undefined) {
      const names = [...this.#models.keys()].join(', ') || 'none';
      throw new InvalidModelError(
        `no model ${String(model)} is registered; registered: ${names}. Give it to the client's models, or to register`,
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
