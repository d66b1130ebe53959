/** Encrypted attributes of models: they are encrypted right before a write is sent, and decrypted right after a read. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { InvalidModelError, KeyProviderError, TheorydbError } from './errors.js';
import type { Item } from './item.js';
import { nameOf } from './marshal.js';
import type { Model } from './model.js';
import type { Calls } from './retry.js';

/** The item to which encrypted attributes are bound. */
export interface ItemLocation {
  /** The table's name or ARN. */
  readonly table: string;
  /** The names and values of the partition key and, if the table has one, the sort key. */
  readonly key: readonly (readonly [name: string, value: AttributeValue])[];
}

/** Encrypts attributes. `envelopeEncryption` of `@facetheory/tabletheory/encryption` makes one. */
export interface Encryption {
  /** Encrypts attributes of one item, which share a new data key. */
  seal(location: ItemLocation, attributes: Item, signal?: AbortSignal): Promise<Item>;
  /**
   * Decrypts attributes of one item.
   *
   * @throws NotEncryptedError, TamperedError, UnknownKeyError, MalformedRowError
   */
  open(location: ItemLocation, attributes: Item, signal?: AbortSignal): Promise<Item>;
}

/** What a write has to encrypt before it is sent. */
export interface Sealing {
  readonly location: ItemLocation;
  /** The plain values. The request contains the same objects. */
  readonly attributes: Item;
}

/** Returns what of the attributes that are stored with a key has to be encrypted; undefined if nothing has. */
export function sealingOf(model: Model, key: Item, attributes: Item): Sealing | undefined {
  const secrets = encryptedIn(model, attributes);
  return secrets && { location: locationOf(model, key), attributes: secrets };
}

function encryptedIn(model: Model, attributes: Item): Item | undefined {
  const names = model.encrypted.filter(({ attribute }) => attributes[attribute] !== undefined);
  return names.length === 0
    ? undefined
    : (Object.fromEntries(names.map(({ attribute }) => [attribute, attributes[attribute]])) as Item);
}

function locationOf(model: Model, key: Item): ItemLocation {
  const values = model.keys.map(({ attribute }) => [attribute, key[attribute] as AttributeValue] as const);
  return { table: model.tableName, key: values };
}

/** Encrypts writes and decrypts items with the client's keys. Each call has the client's timeout. */
export class Encrypter {
  readonly #calls: Calls;
  readonly #encryption: Encryption | undefined;

  constructor(calls: Calls, encryption: Encryption | undefined) {
    this.#calls = calls;
    this.#encryption = encryption;
  }

  /** @throws InvalidModelError if the model has encrypted attributes and the client has no keys. */
  check(model: Model): void {
    const [first] = model.encrypted;
    if (first !== undefined) {
      this.#keysFor(`the attribute ${first.attribute} of the model ${model.name} is encrypted`);
    }
  }

  /** Returns the item with its encrypted attributes decrypted. */
  async open(model: Model, item: Item, signal: AbortSignal | undefined): Promise<Item> {
    const attributes = encryptedIn(model, item);
    if (attributes === undefined) {
      return item;
    }
    const location = locationOf(model, item);
    const name = `decrypt ${nameOf(model, item)} in table ${model.tableName}`;
    const opened = await this.#call(name, signal, (keys, abortSignal) => keys.open(location, attributes, abortSignal));
    return { ...item, ...opened };
  }

  /** Returns the attributes encrypted. The name of the write is for errors. */
  async seal(name: string, { location, attributes }: Sealing, signal: AbortSignal | undefined): Promise<Item> {
    return this.#call(name, signal, (keys, abortSignal) => keys.seal(location, attributes, abortSignal));
  }

  /** Calls the keys. Errors that are neither this package's nor the caller's cancellation are the provider's. */
  async #call(
    name: string,
    signal: AbortSignal | undefined,
    call: (keys: Encryption, signal: AbortSignal) => Promise<Item>,
  ): Promise<Item> {
    const keys = this.#keysFor(name);
    try {
      return await this.#calls.call(signal, (abortSignal) => call(keys, abortSignal));
    } catch (error) {
      if (error instanceof TheorydbError || signal?.aborted) throw error;
      const message = error instanceof Error ? error.message : String(error);
      throw new KeyProviderError(`${name}: the key provider failed: ${message}`, { cause: error });
    }
  }

  #keysFor(name: string): Encryption {
    if (this.#encryption === undefined) {
      throw new InvalidModelError(
        `${name}: there are no keys for encrypted attributes; pass encryption to TheorydbClient`,
      );
    }
    return this.#encryption;
  }
}
