/**
 * Cursors: where a page ended, as text that is safe in a URL.
 *
 * A cursor belongs to its query, whose hash it carries: the table, the index, the
 * partition and the direction. It has of the position only what the query does not
 * say, so it cannot be made to read anything that the query itself does not read. It
 * is not secret, nor signed: who makes up another position in the partition begins
 * there.
 */

import { createHash } from 'node:crypto';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { InvalidQueryError } from './errors.js';
import { identityOf } from './identity.js';
import type { Item } from './item.js';
import type { AttributeDefinition } from './model.js';

/** What a cursor belongs to. */
export interface CursorScope {
  table: string;
  index: string | undefined;
  descending: boolean;
  /** The partition's key attribute and its value. */
  partition: Item;
  /** The other key attributes of a position, in order. */
  fields: readonly AttributeDefinition[];
}

const version = 1;

/** Bounds a cursor, in characters: DynamoDB's longest keys need less. */
const maxCursor = 8 << 10;

/** The cursor of a position. */
export function cursorOf(scope: CursorScope, position: Item): string {
  const parts = scope.fields.map((field) => textOf(position[field.attribute]));
  return Buffer.from(JSON.stringify([version, bindingOf(scope), ...parts])).toString('base64url');
}

/**
 * The position that a cursor means.
 *
 * @throws InvalidQueryError if it is none, or belongs to another query.
 */
export function positionOf(scope: CursorScope, cursor: string): Item {
  const [found, binding, ...parts] = partsOf(cursor);
  if (found !== version || parts.length !== scope.fields.length || !parts.every((part) => typeof part === 'string')) {
    throw unreadable();
  }
  if (binding !== bindingOf(scope)) {
    throw new InvalidQueryError(
      'the cursor belongs to another query: table, index, partition key and direction must be those of the page that it came with',
    );
  }
  const entries = scope.fields.map((field, i) => [field.attribute, storedOf(field, parts[i] as string)] as const);
  return { ...scope.partition, ...Object.fromEntries(entries) };
}

function partsOf(cursor: string): unknown[] {
  if (typeof cursor !== 'string' || cursor.length > maxCursor) {
    throw unreadable();
  }
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    return Array.isArray(parts) ? parts : [];
  } catch {
    throw unreadable();
  }
}

function unreadable(): InvalidQueryError {
  return new InvalidQueryError('the cursor is none that a page has returned; begin at the first page');
}

function bindingOf(scope: CursorScope): string {
  const bound = [scope.table, scope.index ?? null, scope.descending, identityOf(scope.partition)];
  return createHash('sha256').update(JSON.stringify(bound)).digest('base64url').slice(0, 22);
}

function textOf(value: AttributeValue | undefined): string {
  return value?.S ?? value?.N ?? Buffer.from(value?.B ?? []).toString('base64url');
}

function storedOf(field: AttributeDefinition, text: string): AttributeValue {
  switch (field.type) {
    case 'N':
      return { N: text };
    case 'B':
      return { B: Buffer.from(text, 'base64url') };
    default:
      return { S: text };
  }
}
