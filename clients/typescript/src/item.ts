/** Items as DynamoDB stores them. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

/** A stored item or its key: `{ pk: { S: 'CACHE#…' }, … }`. */
export type Item = Record<string, AttributeValue>;

/** Describes an attribute for an error message: its type and its shortened value. */
export function describe(value: AttributeValue | undefined): string {
  if (value === undefined) {
    return 'nothing';
  }
  if (value.S !== undefined) {
    return `string ${JSON.stringify(shorten(value.S))}`;
  }
  if (value.N !== undefined) {
    return `number ${shorten(value.N)}`;
  }
  if (value.B !== undefined) {
    return `${value.B.length} bytes of binary`;
  }
  if (value.BOOL !== undefined) {
    return `boolean ${value.BOOL}`;
  }
  if (value.NULL !== undefined) {
    return 'NULL';
  }
  if (value.M !== undefined) {
    return `a map of ${Object.keys(value.M).length}`;
  }
  return value.L === undefined ? 'a set' : `a list of ${value.L.length}`;
}

const maxShown = 48;

/** Truncates a text for an error message. */
export function shorten(text: string): string {
  const characters = [...text.slice(0, 2 * maxShown)];
  return characters.length <= maxShown ? text : `${characters.slice(0, maxShown).join('')}…`;
}
