/**
 * Conversion between JavaScript values and DynamoDB attribute values. Both directions are
 * exact: values without an exact counterpart are rejected, never rounded, truncated or
 * dropped.
 *
 *     S            string, well-formed (no lone surrogates)
 *     N            number; with as: 'bigint' bigint, with as: 'string' a decimal as text
 *     B            Uint8Array
 *     BOOL, NULL   boolean, null
 *     SS, NS, BS   Set, never empty; NS with `as` as N
 *     L, M         arrays and plain objects of all of these
 *
 * Inside lists and maps an integer beyond 2^53 - 1 is a bigint.
 */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { canonicalDecimal, exactInteger, exactNumber, expectedDecimal } from './decimal.js';
import { InvalidInputError } from './errors.js';
import { describe, shorten } from './item.js';

/** DynamoDB's attribute types. */
export type AttributeType = 'S' | 'N' | 'B' | 'BOOL' | 'NULL' | 'M' | 'L' | 'SS' | 'NS' | 'BS';

/** The JavaScript types for numbers other than `number`. */
export type NumberForm = 'bigint' | 'string';

/** A value in a list or a map. */
export type DocumentValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | Uint8Array
  | Set<string>
  | Set<number | bigint>
  | Set<Uint8Array>
  | DocumentList
  | DocumentMap;

/** A list. */
export type DocumentList = DocumentValue[];

/** A map. Undefined members are omitted. */
export interface DocumentMap {
  [name: string]: DocumentValue | undefined;
}

/** The part of an attribute's declaration that concerns its values. */
export interface ValueType {
  type: AttributeType;
  as?: NumberForm | undefined;
}

/** How deep lists and maps may nest, counting the attribute itself: DynamoDB's own limit. */
const maxDepth = 32;

/** A stored value does not have the declared type of its attribute. */
export class Mismatch extends Error {
  /** The path below the attribute, such as `.lines[2]`; empty for the attribute itself. */
  readonly path: string;
  readonly expected: string;
  readonly found: string;

  constructor(path: string, expected: string, found: AttributeValue | undefined) {
    super(`expected ${expected}`);
    this.path = path;
    this.expected = expected;
    this.found = describe(found);
  }
}

/**
 * Encodes the value of an attribute. `path` names it in errors.
 *
 * @throws InvalidInputError if the value has the wrong type or cannot be stored exactly.
 */
export function encode(declared: ValueType, value: unknown, path: string): AttributeValue {
  switch (declared.type) {
    case 'S':
      return { S: text(value, path) };
    case 'N':
      return { N: decimal(value, declared.as, path) };
    case 'B':
      return { B: bytes(value, path) };
    case 'BOOL':
      return { BOOL: check(value, typeof value === 'boolean', 'a boolean', path) as boolean };
    case 'NULL':
      check(value, value === null, 'null', path);
      return { NULL: true };
    case 'SS':
      return { SS: members(value, path).map((member) => text(member, path)) };
    case 'NS':
      return {
        NS: distinct(
          members(value, path).map((member) => decimal(member, declared.as, path)),
          path,
        ),
      };
    case 'BS':
      return {
        BS: distinctBytes(
          members(value, path).map((member) => bytes(member, path)),
          path,
        ),
      };
    case 'L':
      check(value, Array.isArray(value), 'an array', path);
      return encodeDocument(value, path, 1);
    case 'M':
      check(value, isPlain(value), 'a plain object', path);
      return encodeDocument(value, path, 1);
  }
}

function encodeDocument(value: unknown, path: string, depth: number): AttributeValue {
  switch (typeof value) {
    case 'string':
      return { S: text(value, path) };
    case 'number':
      return { N: decimal(value, undefined, path) };
    case 'bigint':
      return { N: decimal(value, 'bigint', path) };
    case 'boolean':
      return { BOOL: value };
  }
  if (value === null) {
    return { NULL: true };
  }
  if (value instanceof Uint8Array) {
    return { B: value };
  }
  if (value instanceof Set) {
    return encodeSet(value, path);
  }
  return encodeNested(value, path, depth);
}

function encodeNested(value: unknown, path: string, depth: number): AttributeValue {
  if (depth > maxDepth) {
    throw new InvalidInputError(`${path}: lists and maps nest ${maxDepth} levels at most`);
  }
  if (Array.isArray(value)) {
    return { L: Array.from(value, (member, i) => encodeDocument(member, `${path}[${i}]`, depth + 1)) };
  }
  check(value, isPlain(value), 'a string, number, bigint, boolean, null, Uint8Array, Set, array or plain object', path);
  const entries = Object.entries(value as object).filter(([, member]) => member !== undefined);
  return {
    M: Object.fromEntries(
      entries.map(([name, member]) => [name, encodeDocument(member, `${path}.${memberName(name, path)}`, depth + 1)]),
    ),
  };
}

/** Rejects `__proto__`, the one name under which the SDK would silently lose a member. */
function memberName(name: string, path: string): string {
  if (name === '__proto__') {
    throw new InvalidInputError(`${path}: a member of a map cannot be named __proto__; choose another name`);
  }
  return text(name, `a name in ${path}`);
}

/** Encodes a set inside a document. All members must have the same type. */
function encodeSet(value: ReadonlySet<unknown>, path: string): AttributeValue {
  const all = members(value, path);
  if (all.every((member) => typeof member === 'string')) {
    return encode({ type: 'SS' }, value, path);
  }
  if (all.every((member) => member instanceof Uint8Array)) {
    return encode({ type: 'BS' }, value, path);
  }
  const numbers = all.map((member) => decimal(member, typeof member === 'bigint' ? 'bigint' : undefined, path));
  return { NS: distinct(numbers, path) };
}

function text(value: unknown, path: string): string {
  const string = check(value, typeof value === 'string', 'a string', path) as string;
  if (!string.isWellFormed()) {
    throw new InvalidInputError(
      `${path}: the text ${formatValue(string)} has a lone surrogate and cannot be stored as UTF-8`,
    );
  }
  return string;
}

function bytes(value: unknown, path: string): Uint8Array {
  return check(value, value instanceof Uint8Array, 'a Uint8Array', path) as Uint8Array;
}

function decimal(value: unknown, as: NumberForm | undefined, path: string): string {
  const given = as ?? 'number';
  check(value, typeof value === given, as === 'string' ? 'a decimal number as text' : `a ${given}`, path);
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new InvalidInputError(
      `${path}: ${value} is beyond 2^53 - 1 and may already have lost digits; declare the attribute with as: 'bigint'`,
    );
  }
  const written = canonicalDecimal(String(value));
  if (written === undefined) {
    throw new InvalidInputError(`${path}: expected ${expectedDecimal}, found ${formatValue(value)}`);
  }
  return written;
}

function members(value: unknown, path: string): unknown[] {
  const set = check(value, value instanceof Set, 'a Set', path) as Set<unknown>;
  if (set.size === 0) {
    throw new InvalidInputError(`${path}: DynamoDB has no empty sets; leave the attribute out`);
  }
  return [...set];
}

/** Rejects numbers that are equal once normalized: 1 and 1n, '1' and '1.0'. */
function distinct(written: string[], path: string): string[] {
  if (new Set(written).size < written.length) {
    throw new InvalidInputError(`${path}: the set contains a number twice`);
  }
  return written;
}

function distinctBytes(all: Uint8Array[], path: string): Uint8Array[] {
  if (new Set(all.map((member) => Buffer.from(member).toString('base64'))).size < all.length) {
    throw new InvalidInputError(`${path}: the set contains the same bytes twice`);
  }
  return all;
}

function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function check(value: unknown, holds: boolean, expected: string, path: string): unknown {
  if (!holds) {
    throw new InvalidInputError(`${path}: expected ${expected}, found ${formatValue(value)}`);
  }
  return value;
}

/** Formats a value for an error message. */
export function formatValue(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(shorten(value));
    case 'bigint':
      return `${shorten(String(value))}n`;
    case 'object':
      return value === null ? 'null' : `a ${value.constructor?.name ?? 'plain object'}`;
    case 'function':
    case 'symbol':
      return `a ${typeof value}`;
  }
  return String(value);
}

/**
 * Decodes the value of an attribute.
 *
 * @throws Mismatch if it does not have the declared type, or has no exact JavaScript value.
 */
export function decode(declared: ValueType, stored: AttributeValue): unknown {
  const value = stored[declared.type as keyof AttributeValue];
  if (value === undefined) {
    throw new Mismatch('', expectation[declared.type], stored);
  }
  switch (declared.type) {
    case 'N':
      return decodeNumber(value as string, declared.as, '', stored);
    case 'NULL':
      return null;
    case 'NS':
      return new Set((value as string[]).map((member) => decodeNumber(member, declared.as, '', stored)));
    case 'SS':
    case 'BS':
      return new Set<unknown>(value as string[] | Uint8Array[]);
    case 'L':
    case 'M':
      return decodeDocument(stored, '');
    case 'S':
    case 'B':
    case 'BOOL':
      return value;
  }
}

/** Descriptions of the types for error messages. */
const expectation: Readonly<Record<AttributeType, string>> = {
  S: 'a string',
  N: 'a number',
  B: 'binary',
  BOOL: 'a boolean',
  NULL: 'NULL',
  M: 'a map',
  L: 'a list',
  SS: 'a set of strings',
  NS: 'a set of numbers',
  BS: 'a set of binary',
};

function decodeNumber(text: string, as: NumberForm | undefined, path: string, stored: AttributeValue): unknown {
  if (as === 'string') {
    return canonicalDecimal(text) ?? text;
  }
  const value = as === 'bigint' ? exactInteger(text) : exactNumber(text);
  if (value === undefined) {
    const exact =
      as === 'bigint' ? 'an integer' : "a number with an exact JavaScript value (or declare as: 'bigint' or 'string')";
    throw new Mismatch(path, exact, stored);
  }
  return value;
}

function decodeDocument(stored: AttributeValue, path: string): DocumentValue {
  if (stored.M !== undefined) {
    const entries = Object.entries(stored.M);
    return Object.fromEntries(entries.map(([name, member]) => [name, decodeDocument(member, `${path}.${name}`)]));
  }
  if (stored.L !== undefined) {
    return stored.L.map((member, i) => decodeDocument(member, `${path}[${i}]`));
  }
  if (stored.N !== undefined) {
    return documentNumber(stored.N, path, stored);
  }
  if (stored.NS !== undefined) {
    return new Set(stored.NS.map((member) => documentNumber(member, path, stored)));
  }
  if (stored.NULL !== undefined) {
    return null;
  }
  return stored.SS !== undefined
    ? new Set(stored.SS)
    : stored.BS !== undefined
      ? new Set(stored.BS)
      : scalar(stored, path);
}

function documentNumber(text: string, path: string, stored: AttributeValue): number | bigint {
  const value = exactNumber(text) ?? exactInteger(text);
  if (value === undefined) {
    throw new Mismatch(path, 'a number with an exact JavaScript value', stored);
  }
  return value;
}

function scalar(stored: AttributeValue, path: string): string | boolean | Uint8Array {
  const value = stored.S ?? stored.BOOL ?? stored.B;
  if (value === undefined) {
    throw new Mismatch(path, 'a value of a known type', stored);
  }
  return value;
}
