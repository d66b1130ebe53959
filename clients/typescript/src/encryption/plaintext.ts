/**
 * The plaintext of an encrypted attribute: its value in DynamoDB's JSON, such as
 * `{"S":"x"}`. Errors describe a value by its type and position, and never quote it.
 */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { canonicalDecimal, expectedDecimal } from '../decimal.js';
import type { Item } from '../item.js';

/** The maximum nesting of values, counting the attribute itself. */
const maxDepth = 32;

/** A value that cannot be stored, or JSON that is not one. */
export class InvalidPlaintext extends Error {}

/**
 * Returns the canonical JSON of a value: RFC 8785 (JCS), with numbers in plain decimal and
 * sets sorted by UTF-16 code units.
 *
 * @throws InvalidPlaintext for what DynamoDB would reject, since it sees only the ciphertext.
 */
export function plaintextOf(value: AttributeValue, depth = 1): string {
  checkDepth(depth);
  const [[type, content] = [], ...others] = Object.entries(value).filter(([, content]) => content !== undefined);
  if (type === undefined || others.length > 0) {
    throw new InvalidPlaintext('a value without a type, or with several');
  }
  switch (type) {
    case 'M': {
      const members = Object.entries(content as Item).sort(([a], [b]) => (a < b ? -1 : 1));
      const texts = members.map(([name, member]) => `${JSON.stringify(text(name))}:${plaintextOf(member, depth + 1)}`);
      return `{"M":{${texts.join(',')}}}`;
    }
    case 'L':
      return `{"L":[${value.L?.map((member) => plaintextOf(member, depth + 1)).join(',')}]}`;
    case 'B':
      return JSON.stringify({ B: base64(content) });
    case 'BS':
      return JSON.stringify({ BS: distinct((content as Uint8Array[]).map(base64)).sort() });
    default: {
      const valid = scalarOf(type, content);
      const sorted = valid.SS ?? valid.NS;
      return JSON.stringify(sorted === undefined ? valid : { [type]: [...sorted].sort() });
    }
  }
}

/**
 * Parses the JSON of a value. It is authentic, but another implementation may have written
 * it, in any order of members and any form of numbers.
 *
 * @throws InvalidPlaintext
 */
export function parsePlaintext(plaintext: Uint8Array): AttributeValue {
  try {
    return parseValue(JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(plaintext)), 1);
  } catch (error) {
    if (error instanceof InvalidPlaintext) throw error;
    throw new InvalidPlaintext('no JSON in UTF-8'); // the parser's message quotes the text
  }
}

function parseValue(json: unknown, depth: number): AttributeValue {
  checkDepth(depth);
  const [[type, content] = [], ...others] = Object.entries(objectOf(json));
  if (type === undefined || others.length > 0) {
    throw new InvalidPlaintext('a value without a type, or with several');
  }
  switch (type) {
    case 'M': {
      const members = Object.entries(objectOf(content));
      return { M: Object.fromEntries(members.map(([name, member]) => [name, parseValue(member, depth + 1)])) };
    }
    case 'L':
      return { L: arrayOf(content).map((member) => parseValue(member, depth + 1)) };
    case 'B':
      return { B: bytes(content) };
    case 'BS':
      return { BS: distinct(arrayOf(content).map(text)).map(bytes) };
    default:
      return scalarOf(type, content);
  }
}

/** Checks a value of a type that is the same in JSON and in the SDK, and normalizes numbers. */
function scalarOf(type: string, content: unknown): AttributeValue {
  switch (type) {
    case 'S':
      return { S: text(content) };
    case 'N':
      return { N: number(content) };
    case 'SS':
      return { SS: distinct(arrayOf(content).map(text)) };
    case 'NS':
      return { NS: distinct(arrayOf(content).map(number)) };
    case 'BOOL':
      if (typeof content === 'boolean') return { BOOL: content };
      throw new InvalidPlaintext('a BOOL that is no boolean');
    case 'NULL':
      if (content === true) return { NULL: true };
      throw new InvalidPlaintext('a NULL that is not true');
  }
  throw new InvalidPlaintext('a value of an unknown type');
}

function checkDepth(depth: number): void {
  if (depth > maxDepth) {
    throw new InvalidPlaintext(`values nested more than ${maxDepth} levels deep`);
  }
}

function objectOf(json: unknown): object {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new InvalidPlaintext('no object where one is expected');
  }
  return json;
}

function arrayOf(json: unknown): unknown[] {
  if (!Array.isArray(json)) {
    throw new InvalidPlaintext('no array where one is expected');
  }
  return json;
}

function text(content: unknown): string {
  if (typeof content !== 'string' || !content.isWellFormed()) {
    throw new InvalidPlaintext('no well-formed string where one is expected');
  }
  return content;
}

function number(content: unknown): string {
  const written = canonicalDecimal(text(content));
  if (written === undefined) {
    throw new InvalidPlaintext(`something other than ${expectedDecimal}`);
  }
  return written;
}

function base64(content: unknown): string {
  return Buffer.from(content as Uint8Array).toString('base64');
}

/** Decodes padded base64, and nothing that only resembles it. */
export function bytes(content: unknown): Uint8Array {
  const decoded = Buffer.from(text(content), 'base64');
  if (decoded.toString('base64') !== content) {
    throw new InvalidPlaintext('no base64 where it is expected');
  }
  return new Uint8Array(decoded);
}

function distinct(members: string[]): string[] {
  if (members.length === 0 || new Set(members).size < members.length) {
    throw new InvalidPlaintext('a set that is empty or has a member twice');
  }
  return members;
}
