/** Transactions that are seen in part: what reads that are not transactions may return while one is being committed. */

import { type AttributeValue, type DynamoDBClient, TransactionCanceledException } from '@aws-sdk/client-dynamodb';

import type { Item } from '../../src/item.js';
import type { TestTable } from '../engines.js';
import { itemsOf } from './table.js';

/** Names a row: its partition and sort keys. */
const nameOf = ({ pk, sk }: Record<string, AttributeValue>) => `${pk?.S} ${sk?.S}`;

/**
 * Lets a client see the rows whose sort keys `old` selects as they were in `before`, whatever has
 * been committed since, except by TransactGetItems: DynamoDB commits a transaction row by row. The
 * first `conflicts` of those are refused for a conflict, as while the transaction is being
 * committed.
 */
export function tear(ddb: DynamoDBClient, before: readonly Item[], old: (sk: string) => boolean, conflicts = 0): void {
  const known = new Map(before.map((item) => [nameOf(item), item]));
  const isOld = (item: Item) => old(item['sk']?.S ?? '');
  const shown = (item: Item): Item | undefined => (isOld(item) ? known.get(nameOf(item)) : item);
  const all = (items: Item[] = []): Item[] => items.map(shown).filter((item) => item !== undefined);
  let left = conflicts;
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const { commandName } = context as { commandName?: string };
      if (commandName === 'TransactGetItemsCommand' && left-- > 0) {
        throw new TransactionCanceledException({
          message: 'Transaction cancelled',
          CancellationReasons: [{ Code: 'TransactionConflict' }],
          $metadata: { httpStatusCode: 400 },
        });
      }
      const answer = await next(args);
      const output = answer.output as { Item?: Item; Items?: Item[]; Responses?: unknown };
      if (commandName === 'GetItemCommand' && output.Item) {
        const item = shown(output.Item);
        if (item) output.Item = item;
        else delete output.Item;
      }
      if (commandName === 'QueryCommand') output.Items = all(output.Items);
      if (commandName === 'BatchGetItemCommand') {
        const responses = (output.Responses ?? {}) as Record<string, Item[]>;
        output.Responses = Object.fromEntries(Object.entries(responses).map(([table, items]) => [table, all(items)]));
      }
      return answer;
    },
    { step: 'initialize', priority: 'low', name: 'torn' },
  );
}

/**
 * Runs a transaction, and returns a client that sees it in part: the rows that `old` selects are as
 * before it. See {@link tear}.
 */
export async function torn(
  table: TestTable,
  transaction: () => Promise<unknown>,
  old: (sk: string) => boolean,
  conflicts = 0,
): Promise<DynamoDBClient> {
  const before = await itemsOf(table);
  await transaction();
  const ddb = table.connect();
  tear(ddb, before, old, conflicts);
  return ddb;
}
