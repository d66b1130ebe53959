/** Items and keys of models, to and from what DynamoDB stores. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { canonicalDecimal } from './decimal.js';
import { InvalidInputError, MalformedRowError } from './errors.js';
import { describe, type Item } from './item.js';
import { type AttributeDefinition, isOptional, type Model } from './model.js';
import { decode, encode, Mismatch, shown } from './value.js';

/** The last second of the year 9999. A larger ttl is a clock in milliseconds. */
const maxMoment = 253402300799;

/**
 * Encodes a whole item. A member that is undefined counts as absent.
 *
 * @throws InvalidInputError for a value that does not fit, a member without an
 * attribute, or a required one that is missing.
 */
export function encodeItem(model: Model, item: unknown): Item {
  const given = membersOf(model, item);
  for (const name of Object.keys(given)) {
    attributeOf(model, name);
  }
  const entries: [string, AttributeValue][] = [];
  for (const declared of model.attributes.values()) {
    const stored = encodeMember(model, declared, given[declared.attribute]);
    if (stored !== undefined) {
      entries.push([declared.attribute, stored]);
    }
  }
  return Object.fromEntries(entries);
}

/** Encodes the key of an item, or of an item that is given whole. */
export function encodeKey(model: Model, key: unknown): Item {
  const given = membersOf(model, key);
  return Object.fromEntries(
    model.keys.map((declared) => [declared.attribute, encodeMember(model, declared, given[declared.attribute])]),
  ) as Item;
}

/** Encodes one attribute; undefined: items are to be without it. A version that is missing is the caller's to give. */
export function encodeMember(model: Model, declared: AttributeDefinition, value: unknown): AttributeValue | undefined {
  const path = `${model.name}.${declared.attribute}`;
  if (value === undefined || (declared.omit_empty && isEmpty(declared, value))) {
    if (isOptional(declared) || declared === model.version) {
      return undefined;
    }
    throw new InvalidInputError(`${path}: it is required, and missing`);
  }
  const stored = encode(declared, value, path);
  checkMember(model, declared, stored, path);
  return stored;
}

function checkMember(model: Model, declared: AttributeDefinition, stored: AttributeValue, path: string): void {
  if (model.keys.includes(declared) && (stored.S === '' || stored.B?.length === 0)) {
    throw new InvalidInputError(`${path}: a key cannot be empty`);
  }
  const role = declared.roles?.find((role) => role === 'ttl' || role === 'version');
  const highest = role === 'ttl' ? maxMoment : Number.MAX_SAFE_INTEGER;
  const n = Number(stored.N);
  if (role !== undefined && !(Number.isInteger(n) && n >= 0 && n <= highest)) {
    const expected = role === 'ttl' ? 'epoch seconds up to the year 9999, a whole number' : 'a version, a whole number';
    throw new InvalidInputError(`${path}: expected ${expected}, found ${stored.N}; milliseconds are divided by 1,000`);
  }
}

function isEmpty(declared: AttributeDefinition, value: unknown): boolean {
  if (value === false || value === 0 || value === 0n || value === '' || value === null) {
    return true;
  }
  if (declared.as === 'string' && typeof value === 'string') {
    return canonicalDecimal(value) === '0';
  }
  if (value instanceof Uint8Array || Array.isArray(value)) {
    return value.length === 0;
  }
  if (value instanceof Set) {
    return value.size === 0;
  }
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** The attribute of that name. */
export function attributeOf(model: Model, name: string): AttributeDefinition {
  const declared = model.attributes.get(name);
  if (declared === undefined) {
    throw new InvalidInputError(
      `the model ${model.name} has no attribute ${name}; it has ${[...model.attributes.keys()].join(', ')}`,
    );
  }
  return declared;
}

function membersOf(model: Model, item: unknown): Record<string, unknown> {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) {
    throw new InvalidInputError(`an item of the model ${model.name} is an object, not ${shown(item)}`);
  }
  return item as Record<string, unknown>;
}

/**
 * Decodes an item. Attributes that the model does not have are passed over, and
 * NULL is the same as no attribute where one is optional. A version that nobody
 * has stored is 0.
 *
 * @throws MalformedRowError if an attribute has another type than the model says,
 * a required one is missing, or JavaScript cannot say a number exactly.
 */
export function decodeItem(model: Model, stored: Item): Record<string, unknown> {
  const entries: [string, unknown][] = [];
  for (const declared of model.attributes.values()) {
    const value = stored[declared.attribute];
    if (isOptional(declared) && (value === undefined || (value.NULL !== undefined && declared.type !== 'NULL'))) {
      continue;
    }
    const unversioned = declared === model.version && value === undefined;
    entries.push([declared.attribute, unversioned ? 0 : decodeMember(model, declared, stored)]);
  }
  return Object.fromEntries(entries);
}

/** Decodes a key, such as one that a batch has left. */
export function decodeKey(model: Model, stored: Item): Record<string, unknown> {
  return Object.fromEntries(model.keys.map((declared) => [declared.attribute, decodeMember(model, declared, stored)]));
}

function decodeMember(model: Model, declared: AttributeDefinition, stored: Item): unknown {
  const value = stored[declared.attribute];
  try {
    if (value === undefined) {
      throw new Mismatch('', 'an attribute that is required', undefined);
    }
    return decode(declared, value);
  } catch (error) {
    if (!(error instanceof Mismatch)) {
      throw error;
    }
    const [pk, sk = ''] = model.keys.map((key) => textOf(stored[key.attribute]));
    const attribute = declared.attribute + error.path;
    throw new MalformedRowError({ pk: pk ?? '', sk, attribute, expected: error.expected, found: error.found });
  }
}

/** The value of a key as text, for error messages. */
function textOf(value: AttributeValue | undefined): string {
  return value?.S ?? value?.N ?? describe(value);
}

/** Names an item for people: its model, and its key. */
export function nameOf(model: Model, stored: Item): string {
  const keys = model.keys.map((key) => `${key.attribute}=${textOf(stored[key.attribute])}`);
  return `${model.name} ${keys.join(' ')}`;
}
