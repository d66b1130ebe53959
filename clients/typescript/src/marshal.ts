/** Marshals items and keys of models to and from DynamoDB's attribute values. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { canonicalDecimal } from './decimal.js';
import { InvalidInputError, MalformedRowError } from './errors.js';
import { describe, type Item } from './item.js';
import { type AttributeDefinition, isOptional, isStamp, type Model } from './model.js';
import { decode, encode, formatValue, Mismatch } from './value.js';

/** The last second of the year 9999. A larger ttl is in milliseconds by mistake. */
const maxMoment = 253402300799;

/**
 * Encodes an item. Undefined members count as absent.
 *
 * @throws InvalidInputError for a value of the wrong type, a member that the model does
 * not declare, or a missing required attribute.
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

/** Encodes the key of an item. Other members are ignored. */
export function encodeKey(model: Model, key: unknown): Item {
  const given = membersOf(model, key);
  return Object.fromEntries(
    model.keys.map((declared) => [declared.attribute, encodeMember(model, declared, given[declared.attribute])]),
  ) as Item;
}

/** Encodes one attribute. It returns undefined if the attribute is to be absent, or is a version or time that the write fills in. */
export function encodeMember(model: Model, declared: AttributeDefinition, value: unknown): AttributeValue | undefined {
  const path = `${model.name}.${declared.attribute}`;
  if (value === undefined || (declared.omit_empty && isEmpty(declared, value))) {
    if (isOptional(declared) || isStamp(declared)) {
      return undefined;
    }
    throw new InvalidInputError(`${path} is required`);
  }
  const stored = declared.encrypted ? encodeSecret(declared, value, path) : encode(declared, value, path);
  checkMember(model, declared, stored, path);
  return stored;
}

/** Encodes a value that errors must not quote. */
function encodeSecret(declared: AttributeDefinition, value: unknown, path: string): AttributeValue {
  try {
    return encode(declared, value, path);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    throw new InvalidInputError(
      `${path}: expected a value of the type ${declared.type} that can be stored exactly; what was found is not shown, because the attribute is encrypted`,
    );
  }
}

function checkMember(model: Model, declared: AttributeDefinition, stored: AttributeValue, path: string): void {
  if (model.keys.includes(declared) && (stored.S === '' || stored.B?.length === 0)) {
    throw new InvalidInputError(`${path}: a key must not be empty`);
  }
  const role = declared.roles?.find((role) => role === 'ttl' || role === 'version');
  const highest = role === 'ttl' ? maxMoment : Number.MAX_SAFE_INTEGER;
  const n = Number(stored.N);
  if (role !== undefined && !(Number.isInteger(n) && n >= 0 && n <= highest)) {
    const expected = role === 'ttl' ? 'whole epoch seconds up to the year 9999' : 'a version, a whole number';
    throw new InvalidInputError(`${path}: expected ${expected}, found ${stored.N}; divide milliseconds by 1,000`);
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

/** Returns the attribute of that name. @throws InvalidInputError if the model does not declare it. */
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
    throw new InvalidInputError(`an item of the model ${model.name} must be an object (got ${formatValue(item)})`);
  }
  return item as Record<string, unknown>;
}

/**
 * Decodes an item. Attributes that the model does not declare are ignored. For optional
 * attributes NULL means absent. A missing version is 0.
 *
 * @throws MalformedRowError if an attribute does not have its declared type, a required
 * attribute is missing, or a number has no exact JavaScript value.
 */
export function decodeItem(model: Model, stored: Item): Record<string, unknown> {
  return decodePart(model, [...model.attributes.keys()], stored);
}

/** Decodes some attributes of an item, like {@link decodeItem}. */
export function decodePart(model: Model, names: readonly string[], stored: Item): Record<string, unknown> {
  const entries: [string, unknown][] = [];
  for (const declared of names.map((name) => attributeOf(model, name))) {
    const value = stored[declared.attribute];
    if (isOptional(declared) && (value === undefined || (value.NULL !== undefined && declared.type !== 'NULL'))) {
      continue;
    }
    const unversioned = declared === model.version && value === undefined;
    entries.push([declared.attribute, unversioned ? 0 : decodeMember(model, declared, stored)]);
  }
  return Object.fromEntries(entries);
}

/** Decodes a key, such as an unprocessed key of a batch. */
export function decodeKey(model: Model, stored: Item): Record<string, unknown> {
  return Object.fromEntries(model.keys.map((declared) => [declared.attribute, decodeMember(model, declared, stored)]));
}

function decodeMember(model: Model, declared: AttributeDefinition, stored: Item): unknown {
  const value = stored[declared.attribute];
  try {
    if (value === undefined) {
      throw new Mismatch('', 'a required attribute', undefined);
    }
    return decode(declared, value);
  } catch (error) {
    if (!(error instanceof Mismatch)) {
      throw error;
    }
    const [pk, sk = ''] = model.keys.map((key) => textOf(stored[key.attribute]));
    const secret = declared.encrypted && value !== undefined;
    const found = secret ? 'another value, not shown because the attribute is encrypted' : error.found;
    const attribute = declared.attribute + (secret ? '' : error.path);
    throw new MalformedRowError({ pk: pk ?? '', sk, attribute, expected: error.expected, found });
  }
}

/** Formats the value of a key for error messages. */
function textOf(value: AttributeValue | undefined): string {
  return value?.S ?? value?.N ?? describe(value);
}

/** Formats the model and the key of an item for error messages. */
export function nameOf(model: Model, stored: Item): string {
  const keys = model.keys.map((key) => `${key.attribute}=${textOf(stored[key.attribute])}`);
  return `${model.name} ${keys.join(' ')}`;
}
