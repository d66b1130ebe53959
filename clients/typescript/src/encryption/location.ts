/** The location of an encrypted attribute: its table, item and name, to which the ciphertext is bound. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { canonicalDecimal } from '../decimal.js';
import type { ItemLocation } from '../encrypted.js';
import { InvalidInputError } from '../errors.js';
import { describe, shorten } from '../item.js';

/** The version of the format. */
export const formatVersion = 1;

/** Returns the additional data of AES-GCM: each text has its length in front, so that no two locations have the same. */
export function additionalData({ table, key }: ItemLocation, attribute: string): Buffer {
  return Buffer.concat([
    u32(formatVersion),
    prefixed(tableName(table)),
    u32(key.length),
    ...key.flatMap(([name, value]) => [prefixed(name), ...keyValue(name, value)]),
    prefixed(attribute),
  ]);
}

/** Names the attribute in error messages. */
export function describeLocation({ table, key }: ItemLocation, attribute: string): string {
  const keys = key.map(([name, value]) => `${name}=${keyText(value)}`);
  return `attribute ${JSON.stringify(attribute)} of item {${keys.join(', ')}} of table ${JSON.stringify(table)}`;
}

/** Returns the values of the keys for error messages. */
export function keyTexts({ key }: ItemLocation): { pk: string; sk: string } {
  const [pk = '', sk = ''] = key.map(([, value]) => value.S ?? keyText(value));
  return { pk, sk };
}

function keyText(value: AttributeValue): string {
  if (value.S !== undefined) {
    return JSON.stringify(shorten(value.S));
  }
  return value.N === undefined ? describe(value) : shorten(value.N);
}

/** Returns the name in an ARN, so that a table has one location whether it is configured by ARN or by name. */
function tableName(table: string): string {
  return /^arn:.*?:table\/(.*)$/s.exec(table)?.[1] ?? table;
}

function keyValue(name: string, value: AttributeValue | undefined): [type: Buffer, value: Buffer] {
  if (value?.S !== undefined) {
    return [prefixed('S'), prefixed(value.S)];
  }
  if (value?.B !== undefined) {
    return [prefixed('B'), prefixed(value.B)];
  }
  const number = value?.N === undefined ? undefined : canonicalDecimal(value.N);
  if (number === undefined) {
    throw new InvalidInputError(`the key ${name} is ${describe(value)}; expected a string, a number or binary`);
  }
  return [prefixed('N'), prefixed(number)];
}

function prefixed(content: string | Uint8Array): Buffer {
  const encoded = Buffer.from(content as Uint8Array);
  return Buffer.concat([u32(encoded.length), encoded]);
}

function u32(n: number): Buffer {
  const encoded = Buffer.alloc(4);
  encoded.writeUInt32BE(n);
  return encoded;
}
