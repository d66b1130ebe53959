/** Group commit: concurrent changes of the purge log share a transaction. */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { DynamoDBClient, TransactWriteItemsCommandInput } from '@aws-sdk/client-dynamodb';

import { systemClock } from '../../src/clock.js';
import { MovedError, UnknownOutcomeError } from '../../src/errors.js';
import type { Backend } from '../../src/isr/backend.js';
import { settingsOf } from '../../src/isr/config.js';
import { type LogChange, maxWrites, type PlannedWrite } from '../../src/isr/groupcommit.js';
import { type FaceTheoryIsrMetaStoreConfig, FOREVER_MS, hashedPartition } from '../../src/isr/index.js';
import { reloadTarget } from '../../src/isr/log.js';
import type { Refusal } from '../../src/isr/transaction.js';
import { onRow, rowId } from '../../src/isr/transaction.js';
import { skippingClock } from '../clocks.js';
import { onEngines, type TestTable } from '../engines.js';
import { before, cancel, type Fault, injectFaults, NoReply, observe } from '../faults.js';
import { fill, itemAt, itemsOf, patience, storeOn } from './table.js';

/** A change that increments a counter on rows, on condition that none is locked. */
class CounterChange implements LogChange {
  readonly name: string;
  readonly writes: readonly string[];
  readonly purges = [];
  readonly confirm = false;
  readonly markLifetimeSeconds = 0;
  readonly #backend: Backend;
  readonly #pks: readonly string[];

  constructor(b: Backend, ...pks: string[]) {
    this.name = `increment of ${pks[0]}`;
    this.writes = pks.map((pk) => rowId(pk, 'ROW'));
    this.#backend = b;
    this.#pks = pks;
  }

  plan(): PlannedWrite[] {
    return this.#pks.map((pk) => {
      const update = {
        ...onRow(this.#backend, pk, 'ROW'),
        UpdateExpression: 'ADD times :one',
        ConditionExpression: 'attribute_not_exists(locked)',
        ExpressionAttributeValues: { ':one': { N: '1' } },
      };
      const targets = [reloadTarget({ tenant: '', key: pk })];
      return { action: { purpose: 'meta', item: { Update: update } }, targets };
    });
  }

  refused(why: Refusal): Error | undefined {
    return why.has('meta') ? new MovedError(`${this.name}: it is locked`) : undefined;
  }
}

/** A queue with its own client, as another process has, and the commands that it sends. */
function newQueue(table: TestTable, config: Partial<FaceTheoryIsrMetaStoreConfig> = {}, commands: string[] = []) {
  const ddb = table.connect({ maxAttempts: 1 });
  const settings = settingsOf({ ddb, tableName: table.tableName, retryDelayMs: 1, ...patience, ...config });
  const queue = settings.log;
  const increment = (pk: string, signal?: AbortSignal) => queue.append(new CounterChange(settings.backend, pk), signal);
  observe(ddb, commands);
  const transactions = () => commands.filter((command) => command === 'TransactWriteItems').length;
  return { ddb, queue, backend: settings.backend, increment, commands, transactions };
}

/** Page names. The first change leads and forms a batch of its own while the others gather. */
const names = (n: number) => Array.from({ length: n }, (_, i) => `page-${i}`);

/** Reads the counter of each row. */
async function times(table: TestTable): Promise<Record<string, number>> {
  const rows = (await itemsOf(table)).filter((row) => row['times']);
  return Object.fromEntries(rows.map((row) => [row['pk']?.S, Number(row['times']?.N)]));
}

/** Reads the reload targets of the log, and checks that its sequences have no gap and end at SEQ. */
async function loggedPages(table: TestTable): Promise<string[]> {
  const store = storeOn(table);
  const keys: string[] = [];
  let at = 0;
  for (let changes = await store.changes(at); changes.length > 0; changes = await store.changes(at)) {
    for (const change of changes) {
      assert.equal(change.seq, ++at);
      keys.push(...change.reload.map((page) => page.key));
    }
  }
  assert.equal((await store.sequence()).seq, at);
  return keys;
}

const each = (pks: readonly string[], n: number) => Object.fromEntries(pks.map((pk) => [pk, n]));

onEngines('waiting changes share a transaction of at most 98 writes', async (table) => {
  const { increment, transactions } = newQueue(table);
  const pks = names(1 + maxWrites + 1);
  await Promise.all(pks.map((pk) => increment(pk)));
  assert.equal(transactions(), 3, 'the first, 98, and the last');
  assert.deepEqual(await times(table), each(pks, 1));
  assert.deepEqual(await loggedPages(table), pks);
});

onEngines('a large change is not starved by small ones', async (table) => {
  const { queue, backend, increment, transactions } = newQueue(table);
  const large = names(maxWrites);
  const order: string[] = [];
  const log = (name: string, work: Promise<unknown>) => work.then(() => order.push(name));
  const small = (pk: string) => log(pk, increment(pk));
  const work = [
    small('a'),
    small('b'),
    log('large', queue.append(new CounterChange(backend, ...large), undefined)),
    small('c'),
  ];
  await Promise.all(work);
  assert.deepEqual(order, ['a', 'b', 'large', 'c']);
  assert.equal(transactions(), 4);
});

onEngines('two changes of one row go into two transactions', async (table) => {
  const { increment, transactions } = newQueue(table);
  await Promise.all([increment('x'), increment('y'), increment('y'), increment('z')]);
  assert.deepEqual(await times(table), { x: 1, y: 2, z: 1 });
  assert.equal(transactions(), 3);
});

onEngines('a change whose own condition fails leaves the batch, and the others are retried at once', async (table) => {
  const { increment, commands } = newQueue(table);
  await fill(table, [{ pk: { S: 'page-2' }, sk: { S: 'ROW' }, locked: { BOOL: true } }]);
  const pks = names(5);
  const answers = await Promise.allSettled(pks.map((pk) => increment(pk)));
  const errors = answers.map((answer) => (answer.status === 'rejected' ? answer.reason : undefined));
  assert.ok(errors[2] instanceof MovedError);
  assert.deepEqual(errors.filter(Boolean).length, 1);
  assert.deepEqual(await loggedPages(table), ['page-0', 'page-1', 'page-3', 'page-4']);
  const once = ['GetItem', 'TransactWriteItems'];
  assert.deepEqual(commands, [...once, ...once, ...once]);
});

onEngines('a batch that is refused as a whole is split into single changes', async (table) => {
  const { ddb, increment } = newQueue(table);
  refuseLarge(ddb, 4);
  const pks = names(6);
  const answers = await Promise.allSettled(pks.map((pk) => increment(pk)));
  assert.deepEqual(new Set(answers.map((answer) => answer.status)), new Set(['fulfilled']));
  assert.deepEqual(await times(table), each(pks, 1));
});

onEngines('SEQ is read again after the backoff, not before it', async (table) => {
  const events: string[] = [];
  const clock = { ...systemClock(), sleep: async () => events.push('pause') > 0 };
  const { ddb, increment } = newQueue(table, { clock }, events);
  before(ddb, 'TransactWriteItems', 1, () => newQueue(table).increment('theirs'));
  await increment('ours');
  assert.deepEqual(events, ['GetItem', 'TransactWriteItems', 'pause', 'GetItem', 'TransactWriteItems']);
  assert.deepEqual(await loggedPages(table), ['theirs', 'ours']);
});

for (const code of ['TransactionConflict', 'ThrottlingError']) {
  onEngines(`a batch cancelled with ${code} is retried as a new request`, async (table) => {
    const { ddb, increment } = newQueue(table);
    const tokens = tokensOf(ddb);
    const met = cancel(ddb, code);
    await Promise.all(names(3).map((pk) => increment(pk)));
    assert.equal(met(), 1);
    assert.equal(new Set(tokens).size, tokens.length);
    assert.deepEqual(await times(table), each(names(3), 1));
  });
}

const pairs: Fault[] = ['reply lost', 'not applied'];

for (const fault of pairs) {
  onEngines(`a batch is retried with its client token and applied once: ${fault}`, async (table) => {
    const { ddb, increment } = newQueue(table);
    const tokens = tokensOf(ddb);
    injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n <= 2 ? fault : undefined));
    await Promise.all(names(4).map((pk) => increment(pk)));
    assert.equal(new Set(tokens).size, 2, 'one for each batch');
    assert.deepEqual(await times(table), each(names(4), 1));
    assert.deepEqual(await loggedPages(table), names(4));
  });

  onEngines(`an unanswered batch that then conflicts stays the same request: ${fault}`, async (table) => {
    const { ddb, increment } = newQueue(table);
    const tokens = tokensOf(ddb);
    const met = cancel(ddb, 'TransactionConflict', 2);
    injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n === 1 ? fault : undefined));
    await increment('x');
    assert.equal(met(), 1);
    assert.equal(new Set(tokens).size, 1, 'the first attempt may still be in flight');
    assert.deepEqual(await times(table), { x: 1 });
  });

  onEngines(`an unanswered batch overtaken by another change is settled by the log: ${fault}`, async (table) => {
    const { ddb, increment } = newQueue(table);
    injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n === 1 ? fault : undefined));
    before(ddb, 'TransactWriteItems', 2, () => newQueue(table).increment('theirs'));
    await increment('ours');
    assert.deepEqual(await times(table), { theirs: 1, ours: 1 });
    assert.deepEqual((await loggedPages(table)).sort(), ['ours', 'theirs']);
  });

  onEngines(`an unanswered batch is settled by the log for all of its changes: ${fault}`, async (table) => {
    const { ddb, increment } = newQueue(table, { clock: skippingClock(), retryDelayMs: 1_000 });
    // Its transactions, but not the revoking one, which only increments SEQ.
    injectFaults(ddb, (command, _, input) => {
      if (command !== 'TransactWriteItems') return undefined;
      return ((input as TransactWriteItemsCommandInput).TransactItems?.length ?? 0) > 2 ? fault : undefined;
    });
    const answers = await Promise.allSettled(names(3).map((pk) => increment(pk)));
    const isMade = fault === 'reply lost';
    assert.deepEqual(new Set(answers.map((answer) => answer.status)), new Set([isMade ? 'fulfilled' : 'rejected']));
    for (const answer of answers) if (answer.status === 'rejected') assert.ok(answer.reason instanceof NoReply);
    assert.deepEqual(await times(table), isMade ? each(names(3), 1) : {});
    assert.equal((await loggedPages(table)).length, isMade ? 3 : 0);
  });
}

onEngines('a batch whose client token has expired is settled by the log', async (table) => {
  const { ddb, increment } = newQueue(table);
  injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n === 1 ? 'reply lost' : undefined));
  let sent = 0;
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const isRepeated =
        (context as { commandName?: string }).commandName === 'TransactWriteItemsCommand' && ++sent === 2;
      const ClientRequestToken = randomUUID(); // as if DynamoDB had forgotten the token
      return next(isRepeated ? { ...args, input: { ...args.input, ClientRequestToken } } : args);
    },
    { step: 'initialize', priority: 'low', name: 'oblivion' },
  );
  await increment('x');
  assert.equal(sent, 2);
  assert.deepEqual(await times(table), { x: 1 });
  assert.deepEqual(await loggedPages(table), ['x']);
});

onEngines('a batch that cannot be settled is unknown for all of its changes', async (table) => {
  const { ddb, increment } = newQueue(table, { settleTimeoutMs: 1_000 });
  injectFaults(ddb, (command) => (command === 'TransactWriteItems' ? 'not applied' : undefined));
  for (const answer of await Promise.allSettled([increment('x'), increment('y')])) {
    assert.ok(answer.status === 'rejected' && answer.reason instanceof UnknownOutcomeError);
  }
});

onEngines('a change cancelled before it is sent leaves the queue; one cancelled later is completed', async (table) => {
  const { ddb, increment } = newQueue(table);
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
  before(ddb, 'TransactWriteItems', 1, async () => {
    first.abort(new Error('gone'));
    second.abort(new Error('gone'));
  });
  const answers = await Promise.allSettled([
    increment('sent', first.signal),
    increment('waiting', second.signal),
    increment('staying', third.signal),
  ]);
  const statuses = answers.map((answer) => answer.status);
  assert.deepEqual(statuses, ['fulfilled', 'rejected', 'fulfilled']);
  await assert.rejects(increment('late', first.signal), /gone/);
  assert.deepEqual(await times(table), { sent: 1, staying: 1 });
});

onEngines('if SEQ cannot be read nothing is written, and the next change succeeds', async (table) => {
  const { ddb, increment } = newQueue(table);
  injectFaults(ddb, (command, n) => (command === 'GetItem' && n <= 4 ? 'not applied' : undefined));
  await assert.rejects(increment('x'), NoReply);
  await increment('y');
  assert.deepEqual(await times(table), { y: 1 });
});

onEngines(
  '1,000 concurrent changes are all committed in few transactions, from one process and from two',
  async (table) => {
    const pks = names(1000);
    const alone = newQueue(table);
    await Promise.all(pks.map((pk) => alone.increment(pk)));
    assert.equal(alone.transactions(), 12, 'the first, ten of 98, and the last');
    assert.deepEqual(await times(table), each(pks, 1));
    const both = [newQueue(table), newQueue(table)];
    await Promise.all(pks.map((pk, i) => both[i % 2]?.increment(pk)));
    assert.deepEqual(await times(table), each(pks, 2));
    assert.deepEqual((await loggedPages(table)).sort(), [...pks, ...pks].sort());
  },
);

onEngines('a change succeeds among busy processes', async (table) => {
  let done = false;
  const busy = async () => {
    const { increment } = newQueue(table);
    while (!done) await Promise.all(names(20).map((pk) => increment(pk)));
  };
  const others = [busy(), busy()];
  for (let i = 0; i < 5; i++) await newQueue(table).increment(`ours-${i}`);
  done = true;
  await Promise.all(others);
  assert.equal(Object.keys(await times(table)).filter((pk) => pk.startsWith('ours')).length, 5);
});

onEngines('concurrent pins of many pages share transactions', async (table) => {
  const keys = names(15);
  const content = { s3_key: { S: 'bodies/x' }, generated_at: { N: '1800000000' } };
  const isr = {
    ...content,
    v: { N: '1' },
    generation_id: { S: 'g1' },
    status: { N: '200' },
    content_length: { N: '5' },
  };
  const meta = { sk: { S: 'META' }, ...content, revalidate_seconds: { N: '60' }, isr: { M: isr } };
  await fill(
    table,
    keys.map((key) => ({ pk: { S: hashedPartition(key) }, ...meta })),
  );
  const ddb = table.connect();
  const commands: string[] = [];
  observe(ddb, commands);
  const store = storeOn(table, { ddb });
  await Promise.all(keys.map((cacheKey) => store.pin({ cacheKey, untilMs: FOREVER_MS })));
  const transactions = commands.filter((command) => command === 'TransactWriteItems').length;
  assert.ok(transactions < keys.length / 2, `${transactions} transactions`);
  assert.deepEqual((await loggedPages(table)).sort(), [...keys].sort());
  const row = await itemAt(table, hashedPartition(keys[14] as string), 'META');
  assert.ok(row?.['isr']?.M?.['pinned_until']);
});

/** Records the client tokens of a client's transactions. */
function tokensOf(ddb: DynamoDBClient): unknown[] {
  const tokens: unknown[] = [];
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const name = (context as { commandName?: string }).commandName;
      if (name === 'TransactWriteItemsCommand') {
        tokens.push((args.input as TransactWriteItemsCommandInput).ClientRequestToken);
      }
      return next(args);
    },
    { step: 'initialize', priority: 'high', name: 'tokens' },
  );
  return tokens;
}

/** Refuses transactions with more than `most` actions, as DynamoDB refuses oversized ones. */
function refuseLarge(ddb: DynamoDBClient, most: number): void {
  ddb.middlewareStack.add(
    (next) => async (args) => {
      const { TransactItems = [] } = args.input as Partial<TransactWriteItemsCommandInput>;
      if (TransactItems.length <= most) return next(args);
      throw Object.assign(new Error('the transaction is too large'), {
        name: 'ValidationException',
        $fault: 'client',
        $metadata: { httpStatusCode: 400 },
      });
    },
    { step: 'initialize', name: 'refusal' },
  );
}
