import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { MalformedRowError } from '../errors.js';
import { describe, type Item } from '../item.js';
import { BOUNDS } from './names.js';
import { clamp, floorOf } from './numbers.js';

/** An item of the table as it was read, whichever service wrote it. */
export type Row = Item;

/** Returns a string attribute, or the empty string. */
export function text(row: Row | undefined, name: string): string {
  return row?.[name]?.S ?? '';
}

/** Returns a map attribute, undefined if it is missing. */
export function child(row: Row | undefined, name: string): Row | undefined {
  return row?.[name]?.M;
}

/** The expected type of an attribute. `read` returns undefined for a value of another type or out of range. */
export interface Kind<T> {
  /** Completes `expected …` in error messages. */
  readonly expected: string;
  /** The value of a missing attribute. */
  readonly none: T;
  read(av: AttributeValue): T | undefined;
}

/** Text, which may be missing. Mappers of other languages write NULL for empty values. */
export const textKind: Kind<string> = {
  expected: 'a string',
  none: '',
  read: (av) => av.S ?? (av.NULL === undefined ? undefined : ''),
};

/** A flag. NULL and a missing attribute are false. */
export const flagKind: Kind<boolean> = {
  expected: 'a boolean',
  none: false,
  read: (av) => av.BOOL ?? (av.NULL === undefined ? undefined : false),
};

/** A sequence, a version or a length. */
export const countKind: Kind<number> = bounded(0, BOUNDS.count);

/** The status of an HTTP response. */
export const statusKind: Kind<number> = bounded(BOUNDS.minStatus, BOUNDS.maxStatus);

/** A time in epoch seconds. A larger value is in another unit, such as milliseconds. */
export const instantKind: Kind<number> = {
  ...bounded(0, BOUNDS.moment),
  expected: 'a number of epoch seconds up to the year 9999',
};

/** A time in epoch seconds, clamped to the valid range: for attributes that mean "at least until". */
export const horizonKind: Kind<number> = clamped('a number of epoch seconds', BOUNDS.moment);

/** A duration in seconds, clamped to [0, ten years]. */
export const periodKind: Kind<number> = clamped('a number of seconds', BOUNDS.interval);

function bounded(lowest: number, highest: number): Kind<number> {
  return {
    expected: `a number from ${lowest} to ${highest}`,
    none: 0,
    read(av) {
      const n = floorOf(av);
      return n === undefined || n < BigInt(lowest) || n > BigInt(highest) ? undefined : Number(n);
    },
  };
}

function clamped(expected: string, highest: number): Kind<number> {
  return {
    expected,
    none: 0,
    read(av) {
      const n = floorOf(av);
      return n === undefined ? undefined : clamp(n, 0, highest);
    },
  };
}

/**
 * Reads an attribute, or a member of a map by a path such as `isr.v`. A missing attribute
 * is the kind's `none`.
 * @throws MalformedRowError if its type or range is wrong.
 */
export function read<T>(row: Row, path: string, kind: Kind<T>): T {
  const av = find(row, path);
  const value = av === undefined ? kind.none : kind.read(av);
  if (value === undefined) throw malformed(row, path, kind.expected);
  return value;
}

/** Checks that an attribute is present: a non-empty text, or a number. @throws MalformedRowError */
export function requirePresent<T>(row: Row, path: string, kind: Kind<T>): void {
  const av = find(row, path);
  const isText = typeof kind.none === 'string';
  if (isText ? !av?.S : av?.N === undefined) {
    throw malformed(row, path, isText ? 'a non-empty string' : kind.expected);
  }
}

function find(row: Row, path: string): AttributeValue | undefined {
  const names = path.split('.');
  const last = names.pop() as string;
  let found: Row | undefined = row;
  for (const name of names) found = child(found, name);
  return found?.[last];
}

/** Returns the error of an unexpected attribute. */
export function malformed(row: Row, path: string, expected: string, note = ''): MalformedRowError {
  return new MalformedRowError({
    pk: text(row, 'pk'),
    sk: text(row, 'sk'),
    attribute: path,
    expected,
    found: describe(find(row, path)) + note,
  });
}

/** Converts a string to an attribute. */
export function S(value: string): AttributeValue {
  return { S: value };
}

/** Converts an integer to an attribute. */
export function N(value: number | bigint): AttributeValue {
  return { N: String(value) };
}
