/** Items as DynamoDB has them. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

/** An item, or the key of one, as it is stored: `{ pk: { S: 'CACHE#…' }, … }`. */
export type Item = Record<string, AttributeValue>;

/** A value for an error message: its type, and itself if it is short. */
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

const longestShown = 48;

/** Cuts a text that would make a message unreadable. */
export function shorten(text: string): string {
  const characters = [...text.slice(0, 2 * longestShown)];
  return characters.length <= longestShown ? text : `${characters.slice(0, longestShown).join('')}…`;
}
