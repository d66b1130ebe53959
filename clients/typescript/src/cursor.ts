/**
 * Pagination cursors: the position where a page ended, as URL-safe text.
 *
 * A cursor is bound to its query by a hash of table, index, partition and direction. It
 * holds only the part of the position that the query does not fix, so a forged cursor
 * cannot read outside the query's partition. It is neither secret nor signed: a client can
 * start at any position in the partition.
 */

import { createHash } from 'node:crypto';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { InvalidQueryError } from './errors.js';
import { identityOf } from './identity.js';
import type { Item } from './item.js';
import type { AttributeDefinition } from './model.js';

/** The query that a cursor is bound to. */
export interface CursorScope {
  table: string;
  index: string | undefined;
  descending: boolean;
  /** The partition key attribute and its value. */
  partition: Item;
  /** The other key attributes of a position, in order. */
  fields: readonly AttributeDefinition[];
}

const version = 1;

/** The maximum length of a cursor, in characters. DynamoDB's longest keys need less. */
const maxCursor = 8 << 10;

/** Encodes a position as a cursor. */
export function cursorOf(scope: CursorScope, position: Item): string {
  const parts = scope.fields.map((field) => textOf(position[field.attribute]));
  return Buffer.from(JSON.stringify([version, bindingOf(scope), ...parts])).toString('base64url');
}

/**
 * Decodes a cursor.
 *
 * @throws InvalidQueryError if it is malformed or belongs to another query.
 */
export function positionOf(scope: CursorScope, cursor: string): Item {
  const [found, binding, ...parts] = partsOf(cursor);
  if (found !== version || parts.length !== scope.fields.length || !parts.every((part) => typeof part === 'string')) {
    throw unreadable();
  }
  if (binding !== bindingOf(scope)) {
    throw new InvalidQueryError(
      'the cursor belongs to another query: use the table, index, partition key and direction of the page that returned it',
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
  return new InvalidQueryError('the cursor is malformed; start at the first page');
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
