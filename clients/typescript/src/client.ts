/**
 * TheorydbClient: typed operations on the items of registered models.
 *
 * Invalid arguments throw before anything is sent. Conditions are never dropped, no read
 * becomes a scan, and values round-trip exactly. A retry after a lost reply is applied
 * once where DynamoDB supports idempotency, which is in transactions; elsewhere
 * `outcomeOf` returns whether a write may have been applied.
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
import { clockOf } from './clock.js';
import { isEcho } from './echo.js';
import { Encrypter, type Encryption } from './encrypted.js';
import { InvalidInputError, InvalidModelError, ItemNotFoundError } from './errors.js';
import type { RawCondition } from './expression.js';
import type { FieldOf, InputOf, ItemOf, KeyOf } from './infer.js';
import type { Item } from './item.js';
import { decodeItem, encodeKey, nameOf } from './marshal.js';
import type { Model } from './model.js';
import { cancellable, checkOptions, type Hints, type Members } from './options.js';
import { answerOf, isThrottling, outcomeOf } from './outcome.js';
import { createTable, ensureTable, type TableOptions } from './provision.js';
import { Query } from './query.js';
import { decodeItems, type Source } from './reader.js';
import { type Call, Calls, type RetryOptions } from './retry.js';
import { Scan } from './scan.js';
import { TokenAge } from './token.js';
import { checkToken, type ModelName, type TransactAction, transactItem, writesOf } from './transact.js';
import { builtChanges, fieldChanges, type UpdateBuilder } from './update.js';
import { createOf, deleteOf, putOf, type SingleWrite, sealed, type UpdateKind, updateOf } from './write.js';

/** Options of a client. Every member has a default. */
export interface TheorydbClientOptions<M extends Model = Model> extends RetryOptions {
  /** The models of the client; `register` adds more. */
  models?: readonly M[];
  /** The wall clock of `created_at` and `updated_at`, in epoch milliseconds. Default: `Date.now`. */
  now?: () => number;
  /**
   * Encrypts the attributes that models declare as encrypted: `envelopeEncryption` of
   * `@facetheory/tabletheory/encryption`. Models with encrypted attributes need it.
   */
  encryption?: Encryption;
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
   * twice within ten minutes under one token once. A second call that encrypts attributes is
   * another request, which DynamoDB refuses. Default: a random token.
   */
  clientRequestToken?: string;
}

const clientOptions: Members<TheorydbClientOptions> = {
  models: true,
  now: true,
  encryption: true,
  callTimeoutMs: true,
  retryDelayMs: true,
  random: true,
};

/** TableTheory's options of a client. */
const replaced: Hints = {
  sendOptions: 'pass a signal to each call',
  numberUnmarshalMode: "declare as: 'bigint' or 'string' for attributes whose numbers have no exact JavaScript value",
};

const writeOptions: Members<WriteOptions> = {
  ...cancellable,
  conditionExpression: true,
  expressionAttributeNames: true,
  expressionAttributeValues: true,
};

const transactOptions: Members<TransactOptions> = { ...cancellable, clientRequestToken: true };
const tableOptions: Members<TableOptions> = { ...cancellable, timeoutMs: true };
const readOptions: Members<ReadOptions> = { ...cancellable, consistentRead: true };

/** TableTheory's options of a write, which state their condition otherwise here. */
const conditions: Hints = {
  ifNotExists: 'create requires that the item does not exist; put replaces it',
  protectedAttributes: 'list the attributes that an update may change',
};

/** The models `M` of a client and the models `N` that it registers; only `N` if the types of its models were not known before. */
export type RegisteredModels<M extends Model, N extends Model> = Model extends M ? N : M | N;

/** The model that the argument `N` of a call stands for: `N` itself, or the one of the client's models `M` with this name. */
export type ModelOf<M extends Model, N> = N extends Model ? N : Model extends M ? Model : Extract<M, { name: N }>;

/**
 * A client for the items of some models. Only `register` changes it. It holds no
 * connections of its own and need not be closed.
 */
export class TheorydbClient<M extends Model = Model> {
  readonly #ddb: DynamoDBClient;
  readonly #calls: Calls;
  readonly #encrypter: Encrypter;
  readonly #models = new Map<string, Model>();

  /** @throws InvalidModelError if two models have the same name. */
  constructor(ddb: DynamoDBClient, options: TheorydbClientOptions<M> = {}) {
    if (typeof ddb?.send !== 'function') {
      throw new InvalidInputError(
        'the first argument of TheorydbClient must be a DynamoDBClient of @aws-sdk/client-dynamodb',
      );
    }
    this.#ddb = ddb;
    checkOptions('TheorydbClient', options, clientOptions, replaced);
    this.#calls = new Calls(clockOf(options), options);
    this.#encrypter = new Encrypter(this.#calls, options.encryption);
    this.register(...(options.models ?? []));
  }

  /**
   * Registers models and returns this client, typed with them.
   *
   * @throws InvalidModelError if another model has the same name.
   */
  register<const N extends readonly Model[]>(...models: N): TheorydbClient<RegisteredModels<M, N[number]>> {
    for (const model of models) {
      const known = this.#models.get(model.name);
      if (known !== undefined && known !== model) {
        throw new InvalidModelError(
          `another model named ${model.name} is already registered; names must be unique within a client`,
        );
      }
      this.#models.set(model.name, model);
    }
    return this as unknown as TheorydbClient<RegisteredModels<M, N[number]>>;
  }

  /**
   * Reads one item.
   *
   * @throws ItemNotFoundError if it does not exist, MalformedRowError if it does not match
   * the model; NotEncryptedError, TamperedError, UnknownKeyError for encrypted attributes, as
   * all reads.
   */
  async get<N extends ModelName<M>>(
    model: N,
    key: KeyOf<ModelOf<M, N>>,
    options: ReadOptions = {},
  ): Promise<ItemOf<ModelOf<M, N>>> {
    const found = await this.getOrNull(model, key, options);
    if (found === null) {
      const known = this.usable(model);
      throw new ItemNotFoundError(
        `get ${nameOf(known, encodeKey(known, key))} in table ${known.tableName}: no such item`,
      );
    }
    return found;
  }

  /** Reads one item; null if it does not exist. */
  async getOrNull<N extends ModelName<M>>(
    model: N,
    key: KeyOf<ModelOf<M, N>>,
    options: ReadOptions = {},
  ): Promise<ItemOf<ModelOf<M, N>> | null> {
    const known = this.usable(model);
    const Key = encodeKey(known, key);
    checkOptions('get', options, readOptions);
    const command = new GetItemCommand({
      TableName: known.tableName,
      Key,
      ConsistentRead: options.consistentRead ?? true,
    });
    options.signal?.throwIfAborted();
    const answer = await this.#read(`get ${nameOf(known, Key)} in table ${known.tableName}`, options, (abortSignal) =>
      this.#ddb.send(command, { abortSignal }),
    );
    if (answer.Item === undefined) {
      return null;
    }
    return this.decode(known, answer.Item, options);
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
    item: InputOf<ModelOf<M, N>>,
    options: WriteOptions = {},
  ): Promise<ItemOf<ModelOf<M, N>>> {
    const known = this.usable(model);
    checkOptions('put', options, writeOptions, conditions);
    return this.#store(item, putOf(known, item, options, this.#calls.clock.now()), options);
  }

  /**
   * Stores an item that must not exist.
   *
   * @returns the item with its version, 1 unless it had one.
   * @throws ConditionFailedError if it exists.
   */
  async create<N extends ModelName<M>>(
    model: N,
    item: InputOf<ModelOf<M, N>>,
    options: WriteOptions = {},
  ): Promise<ItemOf<ModelOf<M, N>>> {
    const known = this.usable(model);
    checkOptions('create', options, writeOptions, conditions);
    return this.#store(item, createOf(known, item, options, this.#calls.clock.now()), options);
  }

  /**
   * Changes an existing item. `changes` is a list of attributes, which are set to their
   * values in `item` or removed if they are undefined there, or a function that builds the
   * update. All other attributes stay. If `item` has a version, the stored item must have
   * the same; the version is incremented in any case.
   *
   * @returns the item as it is stored.
   * @throws ItemNotFoundError if it does not exist, VersionConflictError, ConditionFailedError,
   * UnknownOutcomeError; MalformedRowError if the item was changed, but does not match the model.
   */
  update<N extends ModelName<M>>(
    model: N,
    item: KeyOf<ModelOf<M, N>> & Partial<ItemOf<ModelOf<M, N>>>,
    changes: readonly FieldOf<ModelOf<M, N>>[] | ((update: UpdateBuilder<ModelOf<M, N>>) => unknown),
    options: WriteOptions = {},
  ): Promise<ItemOf<ModelOf<M, N>>> {
    return this.#update('update', this.usable(model), item, changes as Changing, options);
  }

  /**
   * Changes an item like `update`, or creates it. All required attributes must be among the
   * changes. An item that has a version above 0 must exist.
   *
   * @returns the item as it is stored.
   * @throws as `update`, but not ItemNotFoundError
   */
  upsert<N extends ModelName<M>>(
    model: N,
    item: KeyOf<ModelOf<M, N>> & Partial<ItemOf<ModelOf<M, N>>>,
    changes: readonly FieldOf<ModelOf<M, N>>[] | ((update: UpdateBuilder<ModelOf<M, N>>) => unknown),
    options: WriteOptions = {},
  ): Promise<ItemOf<ModelOf<M, N>>> {
    return this.#update('upsert', this.usable(model), item, changes as Changing, options);
  }

  /**
   * Deletes an item. Deleting a missing item is not an error. If the key comes with a
   * version, the stored item must have it.
   *
   * @throws VersionConflictError, ConditionFailedError
   */
  async delete<N extends ModelName<M>>(
    model: N,
    key: KeyOf<ModelOf<M, N>> & Partial<ItemOf<ModelOf<M, N>>>,
    options: WriteOptions = {},
  ): Promise<void> {
    checkOptions('delete', options, writeOptions, conditions);
    await this.#send(deleteOf(this.usable(model), key, options), options);
  }

  /** Starts a query of one partition. */
  query<N extends ModelName<M>>(model: N): Query<ModelOf<M, N>> {
    return new Query(this.#source, this.usable(model) as ModelOf<M, N>);
  }

  /** Starts a scan of all items of the model's table, or of an index. */
  scan<N extends ModelName<M>>(model: N): Scan<ModelOf<M, N>> {
    return new Scan(this.#source, this.usable(model) as ModelOf<M, N>);
  }

  /**
   * Creates the table of models, with their indexes, pay-per-request billing and the TTL
   * attribute, and waits until it is active. All models must be of one table.
   *
   * @throws InvalidModelError if models contradict each other; the SDK's ResourceInUseException
   * if the table exists
   */
  async createTable(models: ModelName<M> | readonly ModelName<M>[], options: TableOptions = {}): Promise<void> {
    checkOptions('createTable', options, tableOptions);
    await createTable(this.#ddb, this.#calls, this.#modelsOf(models), options);
  }

  /**
   * Creates the table of models if it does not exist; otherwise it checks the keys, adds
   * missing global indexes and enables TTL. It never deletes or replaces anything.
   *
   * @throws InvalidModelError if the table has other keys, or an index that differs
   */
  async ensureTable(models: ModelName<M> | readonly ModelName<M>[], options: TableOptions = {}): Promise<void> {
    checkOptions('ensureTable', options, tableOptions);
    await ensureTable(this.#ddb, this.#calls, this.#modelsOf(models), options);
  }

  /**
   * Reads items by key, in as few requests as possible.
   *
   * @returns as many results as keys, in their order; undefined for missing items. A key may
   * occur more than once.
   * @throws ThrottledError if DynamoDB repeatedly leaves keys unprocessed; `unprocessed.gets`
   * has them.
   */
  async batchGet<N extends ModelName<M>>(
    model: N,
    keys: readonly KeyOf<ModelOf<M, N>>[],
    options: ReadOptions = {},
  ): Promise<(ItemOf<ModelOf<M, N>> | undefined)[]> {
    const known = this.usable(model);
    checkOptions('batchGet', options, readOptions);
    const target = { ...this.#source, signal: options.signal };
    const found = await batchGet(target, known, keys, options.consistentRead ?? true);
    const stored = found.filter((item) => item !== undefined);
    const items = (await decodeItems(this.#source, known, stored, undefined, options.signal)).values();
    return found.map((item) => item && (items.next().value as ItemOf<ModelOf<M, N>>));
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
    writes: { puts?: readonly InputOf<ModelOf<M, N>>[]; deletes?: readonly KeyOf<ModelOf<M, N>>[] },
    options: CallOptions = {},
  ): Promise<void> {
    checkOptions('batchWrite', options, cancellable);
    checkOptions('the writes of batchWrite', writes, { puts: true, deletes: true });
    const target = { ...this.#source, signal: options.signal };
    await batchWrite(target, this.usable(model), { puts: writes.puts ?? [], deletes: writes.deletes ?? [] });
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
    checkOptions('transactWrite', options, transactOptions);
    checkToken(options.clientRequestToken);
    const writes = writesOf(actions, (model) => this.usable(model), this.#calls.clock.now());
    options.signal?.throwIfAborted();
    const sent = await Promise.all(writes.map((write) => sealed(this.#encrypter, write, options.signal)));
    const command = new TransactWriteItemsCommand({
      ClientRequestToken: options.clientRequestToken ?? randomUUID(),
      TransactItems: sent.map(transactItem),
    });
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
      // A refusal, such as expired credentials, proves nothing about an earlier unanswered attempt.
      const decisive = outcomeOf(error) === 'refused' ? (unanswered ?? error) : error;
      const preconditions = writes.map((write) => write.precondition);
      throw writeFailure(`write a transaction of ${writes.length} actions`, preconditions, decisive);
    }
  }

  /**
   * Decrypts and decodes an item.
   * @internal
   */
  async decode<I>(model: Model, item: Item, options: CallOptions): Promise<I> {
    return decodeItem(model, await this.#encrypter.open(model, item, options.signal)) as I;
  }

  async #read<T>(name: string, options: CallOptions, call: Call<T>): Promise<T> {
    try {
      return await this.#calls.call(options.signal, call);
    } catch (error) {
      throw readFailure(name, error);
    }
  }

  async #store<I>(item: unknown, write: SingleWrite, options: CallOptions): Promise<I> {
    await this.#send(write, options);
    return { ...(item as object), ...write.stamps } as I;
  }

  async #update<I>(
    kind: UpdateKind,
    model: Model,
    item: unknown,
    changing: Changing,
    options: WriteOptions,
  ): Promise<I> {
    checkOptions(kind, options, writeOptions, conditions);
    const changes =
      typeof changing === 'function'
        ? builtChanges(model, changing)
        : fieldChanges(model, item as Record<string, unknown>, changing);
    const write = updateOf(model, kind, item, changes, options, this.#calls.clock.now());
    const stored = (await this.#send(write, options)) ?? {};
    return this.decode(model, stored, options);
  }

  /**
   * Sends one write, without retries of our own: an unanswered write may have been applied.
   * The SDK does retry, so a failed condition may be the echo of its first attempt; the
   * stored item then decides, if it can. It returns the item that an update stored.
   */
  async #send(plain: SingleWrite, options: CallOptions): Promise<Item | undefined> {
    options.signal?.throwIfAborted();
    const write = await sealed(this.#encrypter, plain, options.signal);
    try {
      return await this.#calls.call(options.signal, (abortSignal) => send(this.#ddb, write, abortSignal));
    } catch (error) {
      if (isEcho(write, error)) return answerOf(error)?.Item;
      throw writeFailure(write.precondition.name, [write.precondition], error);
    }
  }

  get #source(): Source {
    return { ddb: this.#ddb, calls: this.#calls, encrypter: this.#encrypter };
  }

  #modelsOf(models: ModelName<M> | readonly ModelName<M>[]): Model[] {
    return (Array.isArray(models) ? models : [models]).map((model) => this.#known(model));
  }

  /**
   * Returns a model whose items this client can read and write.
   * @internal
   */
  usable(model: string | Model): Model {
    const known = this.#known(model);
    this.#encrypter.check(known);
    return known;
  }

  #known(model: string | Model): Model {
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

/** How a caller states the changes of an update. */
type Changing = readonly string[] | ((update: UpdateBuilder<Model>) => unknown);

/** Sends one write. It returns the item that an update stored. */
async function send(ddb: DynamoDBClient, write: SingleWrite, abortSignal: AbortSignal): Promise<Item | undefined> {
  switch (write.kind) {
    case 'put':
      await ddb.send(new PutItemCommand(write.request), { abortSignal });
      return undefined;
    case 'update': {
      const command = new UpdateItemCommand({ ...write.request, ReturnValues: 'ALL_NEW' });
      if (write.once) forbidRepeats(command);
      try {
        return (await ddb.send(command, { abortSignal })).Attributes;
      } catch (error) {
        throw error instanceof NotRepeated ? error.failure : error;
      }
    }
    case 'delete':
      await ddb.send(new DeleteItemCommand(write.request), { abortSignal });
      return undefined;
  }
}

/** Carries an error past the SDK's retries, which repeat a request for the cause of an error too. */
class NotRepeated extends Error {
  constructor(readonly failure: unknown) {
    super('the reply was lost');
  }
}

/**
 * Makes the SDK repeat a command only after a response that proves that it was not applied.
 * After a lost reply the SDK would repeat it by itself, and apply it twice.
 */
function forbidRepeats(command: UpdateItemCommand): void {
  command.middlewareStack.add(
    (next) => async (args) => {
      try {
        return await next(args);
      } catch (error) {
        const answer = answerOf(error);
        if (answer !== undefined && (isThrottling(answer) || outcomeOf(error) !== 'unknown')) throw error;
        throw new NotRepeated(error);
      }
    },
    { step: 'finalizeRequest', priority: 'normal', name: 'forbidRepeats' }, // after retryMiddleware, which has the priority high
  );
}
