/**
 * Echoes: the SDK retries a write whose reply was lost, and the retry's condition fails
 * because the first attempt was applied.
 */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { canonicalDecimal } from './decimal.js';
import type { Item } from './item.js';
import { answerOf, attemptsOf, isConditionFailed } from './outcome.js';
import type { SingleWrite } from './write.js';

/**
 * Reports whether a failed condition proves that an earlier attempt of the SDK applied the
 * write: the stored item equals the one that was sent. A delete never proves that, since
 * another writer may have deleted the item; nor does an update without a version, since
 * another writer may have made the same change.
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

/** Reports whether two attributes are equal to DynamoDB, which normalizes numbers and does not order sets. */
function isEqual(sent: AttributeValue, stored: AttributeValue | undefined): boolean {
  return stored !== undefined && canonical(sent) === canonical(stored);
}

/** Returns the same text for two attributes if and only if they are equal. */
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
