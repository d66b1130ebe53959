/** Images of DynamoDB Streams: items as an event of AWS Lambda, or a GetRecords request, has them. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import type { CallOptions, TheorydbClient } from './client.js';
import { InvalidInputError, InvalidModelError } from './errors.js';
import type { ItemOf, KeyOf } from './infer.js';
import type { Item } from './item.js';
import { decodeItem, decodeKey } from './marshal.js';
import type { Model } from './model.js';
import { formatValue } from './value.js';

/** An image: attribute values by name. Binary values are base64, as events have them, or bytes. */
export type StreamImage = Readonly<Record<string, unknown>>;

/** A record of a stream: an event's, or one of GetRecords. */
export interface StreamRecord {
  readonly dynamodb?:
    | {
        readonly Keys?: StreamImage | undefined;
        readonly NewImage?: StreamImage | undefined;
        readonly OldImage?: StreamImage | undefined;
      }
    | undefined;
}

/** The items of a record, as far as the view of the stream has them. */
export interface StreamItems<M extends Model> {
  keys?: KeyOf<M>;
  /** The item after the change; absent if it was deleted. */
  newImage?: ItemOf<M>;
  /** The item before the change; absent if it was created. */
  oldImage?: ItemOf<M>;
}

/**
 * Decodes an image: `NewImage` or `OldImage`. With a client, which decrypts encrypted
 * attributes, it returns a promise. Without one, the model must not have any.
 *
 * @throws MalformedRowError if it does not match the model, InvalidInputError if it is no
 * image, InvalidModelError; with a client also the errors of encrypted attributes
 */
export function unmarshalStreamImage<M extends Model>(model: M, image: StreamImage): ItemOf<M>;
export function unmarshalStreamImage<M extends Model, C extends Model>(
  model: M,
  image: StreamImage,
  client: TheorydbClient<C>,
  options?: CallOptions,
): Promise<ItemOf<M>>;
export function unmarshalStreamImage<M extends Model, C extends Model>(
  model: M,
  image: StreamImage,
  client?: TheorydbClient<C>,
  options: CallOptions = {},
): ItemOf<M> | Promise<ItemOf<M>> {
  if (client !== undefined) {
    return opened(model, image, client, options);
  }
  const [secret] = model.encrypted;
  if (secret !== undefined) {
    throw new InvalidModelError(
      `the attribute ${secret.attribute} of the model ${model.name} is encrypted: pass the client that has the keys`,
    );
  }
  return decodeItem(model, itemOf(model, image)) as ItemOf<M>;
}

/** Decodes the key and the images of a record, like {@link unmarshalStreamImage}. */
export function unmarshalStreamRecord<M extends Model>(model: M, record: StreamRecord): StreamItems<M>;
export function unmarshalStreamRecord<M extends Model, C extends Model>(
  model: M,
  record: StreamRecord,
  client: TheorydbClient<C>,
  options?: CallOptions,
): Promise<StreamItems<M>>;
export function unmarshalStreamRecord<M extends Model, C extends Model>(
  model: M,
  record: StreamRecord,
  client?: TheorydbClient<C>,
  options: CallOptions = {},
): StreamItems<M> | Promise<StreamItems<M>> {
  if (client !== undefined) {
    return openedRecord(model, record, client, options);
  }
  const { NewImage, OldImage } = contentOf(record);
  return {
    ...keysOf(model, record),
    ...(NewImage && { newImage: unmarshalStreamImage(model, NewImage) }),
    ...(OldImage && { oldImage: unmarshalStreamImage(model, OldImage) }),
  };
}

/** Decodes an image with the keys of a client. */
async function opened<M extends Model, C extends Model>(
  model: M,
  image: StreamImage,
  client: TheorydbClient<C>,
  options: CallOptions,
): Promise<ItemOf<M>> {
  const known = client.usable(model);
  return client.decode(known, itemOf(known, image), options);
}

async function openedRecord<M extends Model, C extends Model>(
  model: M,
  record: StreamRecord,
  client: TheorydbClient<C>,
  options: CallOptions,
): Promise<StreamItems<M>> {
  const { NewImage, OldImage } = contentOf(record);
  return {
    ...keysOf(model, record),
    ...(NewImage && { newImage: await opened(model, NewImage, client, options) }),
    ...(OldImage && { oldImage: await opened(model, OldImage, client, options) }),
  };
}

/** Returns the key of a record. */
function keysOf<M extends Model>(model: M, record: StreamRecord): Pick<StreamItems<M>, 'keys'> {
  const { Keys } = contentOf(record);
  return Keys === undefined ? {} : { keys: decodeKey(model, itemOf(model, Keys)) as KeyOf<M> };
}

function contentOf(record: StreamRecord) {
  const { dynamodb } = record ?? {};
  if (typeof dynamodb !== 'object' || dynamodb === null) {
    throw new InvalidInputError('a record of a stream has a member dynamodb: pass each of the Records of an event');
  }
  return dynamodb;
}

/** Returns an image as an item of the SDK. @throws InvalidInputError */
function itemOf(model: Model, image: StreamImage): Item {
  return membersOf(image, `an image of the model ${model.name}`, 0);
}

/** The deepest nesting that is followed. DynamoDB stores 32 levels. */
const maxDepth = 64;

function membersOf(members: unknown, path: string, depth: number): Item {
  if (typeof members !== 'object' || members === null || Array.isArray(members) || depth > maxDepth) {
    throw new InvalidInputError(`${path}: expected attribute values by name, found ${formatValue(members)}`);
  }
  return Object.fromEntries(
    Object.entries(members).map(([name, value]) => [name, attributeValueOf(value, `${path}: ${name}`, depth)]),
  );
}

function attributeValueOf(value: unknown, path: string, depth: number): AttributeValue {
  const [member, ...others] = Object.entries(value ?? {}).filter(([, of]) => of !== undefined);
  if (member === undefined && (value === null || typeof value === 'object')) {
    return { NULL: true }; // the zero value of an event's attribute
  }
  const [type = '', of] = member ?? [];
  const read = others.length === 0 && Object.hasOwn(readers, type) ? readers[type as keyof typeof readers] : undefined;
  const found = typeof value === 'object' ? read?.(of, path, depth) : undefined;
  if (found !== undefined) return found;
  throw new InvalidInputError(
    `${path}: expected an attribute value such as {"S": "text"}, found ${formatValue(value)}; pass the image as the record has it`,
  );
}

const texts = (value: unknown): string[] | undefined =>
  Array.isArray(value) && value.every((member) => typeof member === 'string') ? value : undefined;

/** Read a value of a type; undefined if it is another one. */
const readers = {
  S: (value: unknown) => (typeof value === 'string' ? { S: value } : undefined),
  N: (value: unknown) => (typeof value === 'string' ? { N: value } : undefined),
  B: (value: unknown) => wrapped('B', bytesOf(value)),
  BOOL: (value: unknown) => (typeof value === 'boolean' ? { BOOL: value } : undefined),
  NULL: (value: unknown) => (value === true ? { NULL: true } : undefined),
  SS: (value: unknown) => wrapped('SS', texts(value)),
  NS: (value: unknown) => wrapped('NS', texts(value)),
  BS: (value: unknown) => {
    const members = Array.isArray(value) ? value.map(bytesOf) : [undefined];
    return members.includes(undefined) ? undefined : { BS: members as Uint8Array[] };
  },
  L: (value: unknown, path: string, depth: number) =>
    Array.isArray(value) && depth < maxDepth
      ? { L: value.map((member, i) => attributeValueOf(member, `${path}[${i}]`, depth + 1)) }
      : undefined,
  M: (value: unknown, path: string, depth: number) => ({ M: membersOf(value, path, depth + 1) }),
} satisfies Record<string, (value: unknown, path: string, depth: number) => AttributeValue | undefined>;

function wrapped(type: 'B' | 'SS' | 'NS', value: unknown): AttributeValue | undefined {
  return value === undefined ? undefined : ({ [type]: value } as unknown as AttributeValue);
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function bytesOf(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  return typeof value === 'string' && base64.test(value) ? new Uint8Array(Buffer.from(value, 'base64')) : undefined;
}
