import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { MalformedRowError } from '../errors.js';
import { describe, type Item } from '../item.js';
import { BOUNDS } from './names.js';
import { clamp, floorOf } from './numbers.js';

/** One item of the table as it was found, whoever wrote it. */
export type Row = Item;

/** The string attribute of that name, or the empty string. */
export function text(row: Row | undefined, name: string): string {
  return row?.[name]?.S ?? '';
}

/** The map attribute of that name, if there is one. */
export function child(row: Row | undefined, name: string): Row | undefined {
  return row?.[name]?.M;
}

/** What an attribute is to be, and how it is read. `read` gives undefined for what does not fit. */
export interface Kind<T> {
  /** For people: `expected …`. */
  readonly expected: string;
  /** What stands for an attribute that is not there. */
  readonly none: T;
  read(av: AttributeValue): T | undefined;
}

/** Text, which may be missing. NULL is what mappers of other languages write for nothing. */
export const textKind: Kind<string> = {
  expected: 'a string',
  none: '',
  read: (av) => av.S ?? (av.NULL === undefined ? undefined : ''),
};

/** A flag. NULL, and nothing, are false. */
export const flagKind: Kind<boolean> = {
  expected: 'a boolean',
  none: false,
  read: (av) => av.BOOL ?? (av.NULL === undefined ? undefined : false),
};

/** A sequence, a version or a length. */
export const countKind: Kind<number> = bounded(0, BOUNDS.count);

/** The status of an HTTP response. */
export const statusKind: Kind<number> = bounded(BOUNDS.minStatus, BOUNDS.maxStatus);

/** A time in epoch seconds. One beyond any calendar is a clock in other units. */
export const instantKind: Kind<number> = {
  ...bounded(0, BOUNDS.moment),
  expected: 'a number of epoch seconds up to the year 9999',
};

/** A time in epoch seconds, clamped to what a time can be: for attributes that say "at least until". */
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
 * Reads an attribute, or a member of a map by a path as `isr.v`. What is not there
 * is the kind's `none`.
 * @throws MalformedRowError if it does not fit.
 */
export function read<T>(row: Row, path: string, kind: Kind<T>): T {
  const av = find(row, path);
  const value = av === undefined ? kind.none : kind.read(av);
  if (value === undefined) throw malformed(row, path, kind.expected);
  return value;
}

/** {@link read} of an attribute that has to be there: a text that is not empty, or a number. */
export function demand<T>(row: Row, path: string, kind: Kind<T>): void {
  const av = find(row, path);
  const isText = typeof kind.none === 'string';
  if (isText ? !av?.S : av?.N === undefined) {
    throw malformed(row, path, isText ? 'a string that is not empty' : kind.expected);
  }
}

function find(row: Row, path: string): AttributeValue | undefined {
  const names = path.split('.');
  const last = names.pop() as string;
  let found: Row | undefined = row;
  for (const name of names) found = child(found, name);
  return found?.[last];
}

/** The error of an attribute that is not what was expected. */
export function malformed(row: Row, path: string, expected: string, note = ''): MalformedRowError {
  return new MalformedRowError({
    pk: text(row, 'pk'),
    sk: text(row, 'sk'),
    attribute: path,
    expected,
    found: describe(find(row, path)) + note,
  });
}

/** The attribute of a string. */
export function S(value: string): AttributeValue {
  return { S: value };
}

/** The attribute of an integer. */
export function N(value: number | bigint): AttributeValue {
  return { N: String(value) };
}
