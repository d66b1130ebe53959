/**
 * Echoes: the SDK repeats a write whose reply was lost, and the condition of the
 * repetition fails because of what the first attempt has stored.
 */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { canonicalDecimal } from './decimal.js';
import type { Item } from './item.js';
import { answerOf, attemptsOf, isConditionFailed } from './outcome.js';
import type { SingleWrite } from './write.js';

/**
 * Whether a failed condition shows that the write was carried out by an earlier attempt
 * of the SDK: what is stored is what was sent. A deletion never shows that, as an item
 * that is not there does not tell who deleted it; nor does an update without a version,
 * which another writer may have made as well.
 */
export function isEcho(write: SingleWrite, error: unknown): boolean {
  const answer = answerOf(error);
  if (!answer?.Item || !isConditionFailed(answer) || attemptsOf(error) === 1) {
    return false;
  }
  switch (write.kind) {
    case 'put':
      return isEqual({ M: write.request.Item }, { M: answer.Item });
    case 'update':
      return write.version !== undefined && write.changes !== undefined && shows(answer.Item, write.changes);
    case 'delete':
      return false;
  }
}

function shows(stored: Item, { set, remove }: { set: Item; remove: readonly string[] }): boolean {
  return (
    Object.entries(set).every(([name, value]) => isEqual(value, stored[name])) &&
    remove.every((name) => stored[name] === undefined)
  );
}

/** Whether two attributes are the same to DynamoDB, which writes numbers in its own way and has sets in any order. */
function isEqual(sent: AttributeValue, stored: AttributeValue | undefined): boolean {
  return stored !== undefined && canonical(sent) === canonical(stored);
}

/** A text that equal attributes have in common, and no others. */
function canonical(value: AttributeValue): string {
  return JSON.stringify(plain(value));
}

function plain(value: AttributeValue): unknown {
  if (value.N !== undefined) return ['N', decimal(value.N)];
  if (value.B !== undefined) return ['B', base64(value.B)];
  if (value.NS !== undefined) return ['NS', value.NS.map(decimal).sort()];
  if (value.SS !== undefined) return ['SS', [...value.SS].sort()];
  if (value.BS !== undefined) return ['BS', value.BS.map(base64).sort()];
  if (value.L !== undefined) return ['L', value.L.map(plain)];
  if (value.M === undefined) return value; // S, BOOL, NULL
  const members = Object.entries(value.M).map(([name, member]) => [name, plain(member)] as const);
  return ['M', members.sort(([a], [b]) => (a < b ? -1 : 1))];
}

function decimal(digits: string): string {
  return canonicalDecimal(digits) ?? digits;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}
