/** The identity of an item, to compare keys. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { canonicalDecimal } from './decimal.js';
import type { Item } from './item.js';

/** Returns the same text for two keys of one table if and only if they are the keys of one item. */
export function identityOf(key: Item): string {
  return JSON.stringify(
    Object.keys(key)
      .sort()
      .map((name) => [name, scalarOf(key[name])]),
  );
}

function scalarOf(value: AttributeValue | undefined): string | undefined {
  if (value?.N !== undefined) {
    return canonicalDecimal(value.N) ?? value.N;
  }
  return value?.S ?? (value?.B && Buffer.from(value.B).toString('base64'));
}
