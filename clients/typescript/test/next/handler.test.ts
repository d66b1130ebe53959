import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { inspect } from 'node:util';
import {
  DeleteItemCommand,
  GetItemCommand,
  ProvisionedThroughputExceededException,
  PutItemCommand,
  QueryCommand,
} from '@aws-sdk/client-dynamodb';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';

import { TableNotFoundError } from '../../src/errors.js';
import { FOREVER_MS } from '../../src/isr/names.js';
import { hashedPartition } from '../../src/isr/partition.js';
import type { PurgeTarget } from '../../src/isr/purgetarget.js';
import type { Answer, GetContext } from '../../src/next/contract.js';
import { createCacheHandler } from '../../src/next/handler.js';
import type { TestTable } from '../engines.js';
import { cancel, injectFaults, observe } from '../faults.js';
import { itemAt, itemsOf, storeOn } from '../isr/table.js';
import { fetched, html, make, minute, onStores, page, pageContext } from './processes.js';

onStores('a cache miss becomes a hit for other processes, with the remaining time', async ({ start, watch }) => {
  const [a, b] = [start(), start()];
  await make(a, '/page', page('one'));
  watch.advance(20_000);
  const began = watch.now() - 1;
  const answer = await b.request().get('/page', pageContext);
  assert.equal(html(answer), 'one');
  const left = Number(answer?.cacheControl?.revalidate);
  assert.ok(left > 0 && left <= 40, `${left} seconds are left of 60, after 20`);
  assert.ok(Number(answer?.lastModified) > began, 'counted from now');
});

onStores('one process regenerates a stale page, the others serve it', async ({ start, watch, verdict }) => {
  const [a, b, c] = [start(), start(), start()];
  await make(a, '/page', page('one'));
  watch.advance(61_000);
  const maker = b.request();
  assert.equal(verdict(await maker.get('/page', pageContext)), 'stale');
  for (const other of [a, c]) {
    const answer = await other.request().get('/page', pageContext);
    assert.equal(html(answer), 'one');
    assert.equal(verdict(answer), 'fresh', 'briefly');
    assert.equal(answer?.cacheControl?.revalidate, 1);
  }
  await maker.set('/page', page('two'), minute);
  assert.equal(html(await c.request().get('/page', pageContext)), 'two');
});

onStores('a prefetch does not acquire the lease', async ({ start, watch }) => {
  const [a, b] = [start(), start()];
  await make(a, '/page', page('one'));
  watch.advance(61_000);
  const prefetch = await a.request({ 'next-router-prefetch': '1' }).get('/page', pageContext);
  assert.equal(prefetch?.cacheControl?.revalidate, 1);
  const visit = await b.request().get('/page', pageContext);
  assert.ok(Number(visit?.lastModified) < watch.now() - 1000, 'the next visitor regenerates it');
});

onStores('a cache miss waits for the process that renders the page', async ({ start }) => {
  const [a, b] = [start(), start()];
  const maker = a.request();
  assert.equal(await maker.get('/page', pageContext), null);
  const waiting = b.request().get('/page', pageContext);
  await maker.set('/page', page('one'), minute);
  assert.equal(html(await waiting), 'one');
});

onStores(
  'after its wait timeout a process renders without the lease, and does not overwrite the holder',
  async ({ start }) => {
    const [a, b] = [start(), start({ waitSeconds: 0 })];
    const [maker, other] = [a.request(), b.request()];
    assert.equal(await maker.get('/page', pageContext), null);
    assert.equal(await other.get('/page', pageContext), null);
    await other.set('/page', page('other'), minute);
    await maker.set('/page', page('maker'), minute);
    assert.equal(html(await b.request().get('/page', pageContext)), 'maker');
  },
);

onStores('an earlier rendering never replaces a later one', async ({ start, watch }) => {
  const [a, b] = [start({ waitSeconds: 0 }), start({ waitSeconds: 0 })];
  const [first, second] = [a.request(), b.request()];
  await second.get('/page', pageContext);
  await first.get('/page', pageContext); // without the lease
  await second.set('/page', page('second'), minute);
  watch.advance(2000);
  await make(b, '/other', page('unrelated'));
  const third = b.request();
  await third.get('/page', pageContext);
  await third.set('/page', page('third'), minute); // on demand: rendered although it is fresh
  await first.set('/page', page('first'), minute);
  assert.equal(html(await a.request().get('/page', pageContext)), 'third');
});

onStores('a failed regeneration puts the page into backoff for all processes', async ({ start, watch }) => {
  const [a, b] = [start(), start()];
  await make(a, '/page', page('one'));
  watch.advance(61_000);
  const maker = a.request();
  const previous = await maker.get('/page', pageContext);
  // Next.js sets the old value again, for a few seconds.
  await maker.set('/page', previous?.value ?? null, { cacheControl: { revalidate: 3, expire: 6 } });
  for (const other of [a, b]) {
    const answer = await other.request().get('/page', pageContext);
    assert.ok(Number(answer?.lastModified) > watch.now() - 5000, 'no process regenerates it');
  }
  watch.advance(6000);
  const again = await b.request().get('/page', pageContext);
  assert.ok(Number(again?.lastModified) <= watch.now() - 1000, 'a process regenerates it');
});

onStores(
  'tags: a revalidation is seen by all processes and covers renderings in progress',
  async ({ start, verdict }) => {
    const [a, b] = [start(), start()];
    await make(a, '/page', page('one', 'news', 'all'));
    const before = b.request();
    assert.equal(verdict(await before.get('/page', pageContext)), 'fresh');
    await a.request().revalidateTag('news');
    const maker = b.request();
    assert.equal(verdict(await maker.get('/page', pageContext)), 'missing');
    // Revalidated during the rendering: the result is already outdated.
    await a.request().revalidateTag(['other', 'all']);
    await maker.set('/page', page('two', 'news', 'all'), minute);
    const again = a.request();
    assert.equal(verdict(await again.get('/page', pageContext)), 'missing');
    await again.set('/page', page('three', 'news', 'all'), minute);
    assert.equal(verdict(await b.request().get('/page', pageContext)), 'fresh');
  },
);

onStores('tags with expire: the page is served as stale until then', async ({ start, watch, verdict }) => {
  const [a, b] = [start(), start()];
  await make(a, '/page', page('one', 'news'));
  await a.request().revalidateTag('news', { expire: 90 });
  const maker = b.request();
  assert.equal(verdict(await maker.get('/page', pageContext)), 'stale');
  assert.equal(verdict(await a.request().get('/page', pageContext)), 'fresh', 'briefly fresh for the others');
  watch.advance(91_000); // the lease of the maker has ended, too
  assert.equal(await a.request().get('/page', pageContext), null);
});

onStores(
  'expired pages are passed to Next.js, so that it reports a failed regeneration',
  async ({ start, watch, verdict }) => {
    const [a, b] = [start(), start({ waitSeconds: 0 })];
    await make(a, '/page', page('one'));
    watch.advance(3601_000);
    const maker = a.request();
    const previous = await maker.get('/page', pageContext);
    assert.equal(verdict(previous), 'blocking');
    assert.equal(await b.request().get('/page', pageContext), null);
    await maker.set('/page', previous?.value ?? null, { cacheControl: { revalidate: 30, expire: 3600 } });
    // It failed. A successful render ends the backoff.
    const other = b.request();
    assert.equal(await other.get('/page', pageContext), null);
    await other.set('/page', page('two'), minute);
    assert.equal(html(await a.request().get('/page', pageContext)), 'two');
  },
);

onStores('a process waits only once for a page that is not rendered', async ({ start, table, watch }) => {
  const ddb = table.connect();
  const sent = injectFaults(ddb, () => undefined);
  // Calls take no time by this clock, so that the number of polls does not depend on the machine.
  let slept = 0;
  const sleep = async (ms: number) => {
    slept += ms;
    return true;
  };
  const clock = { now: watch.now, elapsed: () => slept, sleep };
  const [a, b] = [start(), start({ ddb, clock, waitSeconds: 0.5 })];
  assert.equal(await a.request().get('/page', pageContext), null); // never finishes
  assert.equal(await b.request().get('/page', pageContext), null);
  const looked = sent('Query');
  assert.ok(looked > 4, 'it polls several times');
  for (let i = 1; i <= 3; i++) {
    assert.equal(await b.request().get('/page', pageContext), null);
    assert.equal(sent('Query') - looked, 2 * i, 'the page and the log, once');
  }
  // The process that holds the lease can start again.
  const again = a.request();
  assert.equal(await again.get('/page', pageContext), null);
  await again.set('/page', page('one'), minute);
  assert.equal(html(await b.request().get('/page', pageContext)), 'one');
});

onStores('fetches: revalidated by their tags and the page’s tags, and shared between builds', async ({ start }) => {
  const [a, b] = [start(), start({ buildId: 'build-2' })];
  const context: GetContext = { kind: 'FETCH', tags: ['data'], softTags: ['_N_T_/page'], revalidate: 60 };
  const body = (answer: Answer | null) => (answer?.value?.['data'] as { body?: string } | undefined)?.body;
  for (const [i, tag] of ['data', '_N_T_/page'].entries()) {
    const request = a.request();
    assert.equal(await request.get('hash', context), null);
    await request.set('hash', fetched(`${i}`), { fetchCache: true, tags: ['data'] });
    assert.equal(body(await b.request().get('hash', context)), `${i}`);
    await b.request().revalidateTag(tag);
    assert.equal(await a.request().get('hash', context), null, `after ${tag}`);
  }
});

onStores('pages of another build, another tenant or another service are not served', async ({ start, table }) => {
  const a = start();
  await make(a, '/page', page('one'));
  assert.equal(await start({ buildId: 'build-2' }).request().get('/page', pageContext), null);
  assert.equal(await start({ tenant: 'other' }).request().get('/page', pageContext), null);
  const { Items = [] } = await table.ddb.send(
    new QueryCommand({
      TableName: table.tableName,
      KeyConditionExpression: 'pk = :pk AND sk = :sk',
      ExpressionAttributeValues: { ':pk': { S: hashedPartition('next/build/build-1/page') }, ':sk': { S: 'META' } },
    }),
  );
  const { isr: _, ...foreign } = Items[0] ?? {};
  await table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item: foreign }));
  assert.equal(await start().request().get('/page', pageContext), null);
});

onStores('a revalidation with lost replies or lost requests is applied once', async ({ start, table }) => {
  for (const fault of ['reply lost', 'not applied'] as const) {
    const ddb = table.connect({ maxAttempts: 1 });
    const before = await sequenceOf(table);
    const sent = injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n <= 2 ? fault : undefined));
    await start({ ddb }).request().revalidateTag(fault);
    assert.ok(sent('TransactWriteItems') >= 2, fault);
    assert.equal((await sequenceOf(table)) - before, 1, fault);
  }
});

onStores('a revalidation that the table refuses rejects', async ({ start, table }) => {
  const { ddb, tableName } = table;
  const elsewhere = start({ ddb, tableName: `${tableName}-missing` });
  await assert.rejects(elsewhere.request().revalidateTag('news'), TableNotFoundError);
});

/** Reads the hard sequences of all tag marks. */
async function marksOf(table: TestTable): Promise<Map<string, number>> {
  const rows = (await itemsOf(table)).filter((row) => row['sk']?.S?.startsWith('MARK#'));
  return new Map(rows.map((row) => [String(row['value']?.S), Number(row['hard_seq']?.N ?? 0)]));
}

onStores('concurrent revalidations are all applied', async ({ start, table }) => {
  const processes = [start(), start(), start()];
  const tags = Array.from({ length: 30 }, (_, i) => `tag-${i}`);
  await Promise.all(tags.map((tag, i) => processes[i % 3]?.request().revalidateTag(tag)));
  assert.deepEqual([...(await marksOf(table)).keys()].sort(), [...tags].sort());
  assert.ok((await sequenceOf(table)) < tags.length, 'they share transactions');
});

onStores('a burst of 1,000 revalidations is applied in a few transactions', async ({ start, table }) => {
  const ddb = table.connect();
  const commands: string[] = [];
  observe(ddb, commands);
  const process = start({ ddb });
  const tags = Array.from({ length: 1000 }, (_, i) => `tag-${i}`);
  await Promise.all(tags.map((tag) => process.request().revalidateTag(tag)));
  const transactions = () => commands.filter((command) => command === 'TransactWriteItems').length;
  // The first, ten of 98 tags, and the last; on a busy machine some are sent again.
  const many = transactions();
  assert.ok(many >= 12 && many <= 36, `${many} transactions`);
  const marks = await marksOf(table);
  assert.equal(marks.size, 1000);
  assert.ok([...marks.values()].every((seq) => seq > 0));
  // Revalidations of one tag write one mark.
  await Promise.all(tags.map(() => process.request().revalidateTag('news')));
  assert.ok(transactions() <= many + 6, `${transactions() - many} transactions for one tag`);
  assert.equal((await marksOf(table)).get('news'), await sequenceOf(table));
});

onStores('revalidations of one tag in one transaction are merged', async ({ start, table, verdict }) => {
  const [a, b] = [start(), start()];
  await make(a, '/page', page('one', 'news'));
  assert.equal(verdict(await b.request().get('/page', pageContext)), 'fresh');
  const request = a.request();
  await Promise.all([
    request.revalidateTag('other'), // a transaction of its own; during it the others gather
    request.revalidateTag('news'),
    request.revalidateTag('news', { expire: 30 }),
    request.revalidateTag('news', {}),
  ]);
  assert.equal(await sequenceOf(table), 2);
  assert.equal((await marksOf(table)).get('news'), 2, 'a soft purge does not weaken a hard one');
  assert.equal(
    verdict(await b.request().get('/page', pageContext)),
    'missing',
    'also for a process that follows the log',
  );
  assert.equal(verdict(await start({ waitSeconds: 0 }).request().get('/page', pageContext)), 'missing');
});

onStores('a malformed mark fails only the revalidation that must read it', async ({ start, table }) => {
  const sk = `MARK##tag#${createHash('sha256').update('odd').digest('hex')}`;
  const Item = { pk: { S: 'PURGE' }, sk: { S: sk }, value: { S: 'odd' }, at: { S: 'never' }, seq: { N: '1' } };
  await table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item }));
  const request = start().request();
  const tags = ['first', 'odd', 'news', 'all'];
  const answers = await Promise.allSettled(tags.map((tag) => request.revalidateTag(tag, { expire: 30 })));
  assert.deepEqual(
    answers.map((answer) => (answer.status === 'rejected' ? answer.reason.code : 'applied')),
    ['applied', 'MalformedRow', 'applied', 'applied'],
  );
  await request.revalidateTag('odd'); // replaces it
  assert.equal((await marksOf(table)).get('odd'), await sequenceOf(table));
});

for (const tenant of ['', 'acme']) {
  onStores(
    `purges by others of every kind cover pages${tenant && ` of the tenant ${tenant}`}`,
    async ({ start, table, verdict }) => {
      const store = storeOn(table, tenant ? { tenant } : {});
      const process = start({ tenant, waitSeconds: 0 });
      const kinds: PurgeTarget[] = [
        { kind: 'key', value: 'next/build/build-1/page' },
        { kind: 'tag', value: 'news' },
        { kind: 'prefix', value: 'next/build/build-1/' },
        ...(tenant ? [{ kind: 'tenant', tenant } as const] : []),
        { kind: 'site' },
      ];
      const others: PurgeTarget[] = [
        { kind: 'key', value: 'next/build/build-1/page2' },
        { kind: 'tag', value: 'new' },
        { kind: 'prefix', value: 'next/build/build-2/' },
        { kind: 'prefix', tenant: 'other', value: 'next/' },
        { kind: 'tenant', tenant: 'other' },
      ];
      await make(process, '/page', page('zero', 'news'));
      await store.purge(others, { hard: true });
      assert.equal(verdict(await process.request().get('/page', pageContext)), 'fresh');
      for (const target of kinds) {
        await store.purge([target]);
        const maker = process.request();
        assert.equal(verdict(await maker.get('/page', pageContext)), 'stale', `${target.kind}, from the log`);
        await maker.set('/page', page('one', 'news'), minute);
        assert.equal(verdict(await process.request().get('/page', pageContext)), 'fresh', target.kind);
        await store.purge([target], { hard: true });
        const late = start({ tenant, waitSeconds: 0 }).request();
        assert.equal(await late.get('/page', pageContext), null, `${target.kind}, from the marks`);
        assert.equal(await process.request().get('/page', pageContext), null, `${target.kind}, from the log`);
        await late.set('/page', page('two', 'news'), minute);
        assert.equal(html(await process.request().get('/page', pageContext)), 'two', target.kind);
      }
    },
  );
}

onStores('a revalidation is a purge mark for others', async ({ start, table }) => {
  const store = storeOn(table);
  const request = start().request();
  const cacheKey = 'next/build/build-1/page';
  const covering = async () => (await store.covering({ cacheKey, tags: ['news'] })).seq;
  await request.revalidateTag(['news', 'all'], {});
  assert.equal(await covering(), 1);
  const [change] = await store.changes(0);
  assert.deepEqual(
    change?.marks.map(({ kind, value, seq, hardSeq }) => ({ kind, value, seq, hardSeq })),
    ['news', 'all'].map((value) => ({ kind: 'tag', value, seq: 1, hardSeq: 0 })),
  );
  const { markLifetimeSeconds } = await store.sequence();
  assert.equal(markLifetimeSeconds, 90 * 24 * 3600);
});

for (const fault of ['reply lost', 'not applied'] as const) {
  onStores(`revalidations that share a transaction are applied once: ${fault}`, async ({ start, table }) => {
    const ddb = table.connect({ maxAttempts: 1 });
    injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n > 1 && n <= 3 ? fault : undefined));
    const request = start({ ddb }).request();
    await Promise.all(['a', 'b', 'c'].map((tag) => request.revalidateTag(tag)));
    assert.equal(await sequenceOf(table), 2);
    assert.deepEqual(Object.fromEntries(await marksOf(table)), { a: 1, b: 2, c: 2 });
  });
}

for (const code of ['TransactionConflict', 'ThrottlingError']) {
  onStores(`a revalidation cancelled with ${code} is retried`, async ({ start, table }) => {
    const ddb = table.connect();
    const met = cancel(ddb, code);
    await start({ ddb }).request().revalidateTag('news');
    assert.deepEqual([met(), await sequenceOf(table)], [1, 1]);
  });
}

onStores(
  'a rendering without a lease does not publish with the lease of another rendering',
  async ({ start, watch }) => {
    const [a, b] = [start({ waitSeconds: 0 }), start()];
    const elsewhere = b.request();
    assert.equal(await elsewhere.get('/page', pageContext), null);
    const old = a.request();
    assert.equal(await old.get('/page', pageContext), null, 'it renders the page as well, without the lease');
    watch.advance(2000);
    await elsewhere.set('/page', page('newer'), minute);
    watch.advance(61_000);
    const maker = a.request();
    assert.equal(
      html(await maker.get('/page', pageContext)),
      'newer',
      'stale: this process regenerates it, with the lease',
    );
    await old.set('/page', page('old'), minute);
    assert.equal(html(await b.request().get('/page', pageContext)), 'newer');
    await maker.set('/page', page('newest'), minute);
    assert.equal(html(await b.request().get('/page', pageContext)), 'newest');
  },
);

onStores('a failure without the lease does not end another rendering', async ({ start, table, watch }) => {
  const [a, b] = [start({ waitSeconds: 0 }), start()];
  await make(b, '/page', page('one'));
  watch.advance(61_000);
  const elsewhere = b.request();
  await elsewhere.get('/page', pageContext);
  const old = a.request();
  const shown = await old.get('/page', pageContext); // regenerated elsewhere
  watch.advance(61_000); // the lease of the other ends
  const maker = a.request();
  await maker.get('/page', pageContext);
  await old.set('/page', shown?.value ?? null, { cacheControl: { revalidate: 3, expire: 6 } });
  const lock = await lockOf(table, 'next/build/build-1/page');
  assert.equal(lock?.['failures'], undefined, 'no backoff');
  assert.ok(lock?.['lease_owner']);
});

async function lockOf(table: TestTable, cacheKey: string) {
  return itemAt(table, hashedPartition(cacheKey), 'LOCK');
}

onStores(
  'an oversized page does not open the circuit breaker, and no process waits for it',
  async ({ start, table }) => {
    const warned: string[] = [];
    const [a, b] = [start({ warn: (message) => warned.push(message) }), start()];
    await make(a, '/small', page('small'));
    const maker = a.request();
    assert.equal(await maker.get('/large', pageContext), null);
    await maker.set('/large', page('x'.repeat((64 << 20) + 1)), minute);
    assert.deepEqual(warned, ['a page is too large to be stored']);
    assert.equal(html(await a.request().get('/small', pageContext)), 'small', 'the circuit is closed');
    assert.equal((await lockOf(table, 'next/build/build-1/large'))?.['failures']?.N, '1');
    // Another process renders it at once, and writes nothing.
    const ddb = table.connect();
    const commands: string[] = [];
    observe(ddb, commands);
    const other = start({ ddb }).request();
    assert.equal(await other.get('/large', pageContext), null);
    await other.set('/large', page('x'.repeat((64 << 20) + 1)), minute);
    assert.deepEqual(new Set(commands), new Set(['Query', 'GetItem']));
    assert.equal(html(await b.request().get('/small', pageContext)), 'small');
  },
);

onStores(
  'a formerly pinned page is served when its regeneration fails, even after its windows',
  async ({ start, table, watch, verdict }) => {
    const [a, b] = [start(), start({ waitSeconds: 0 })];
    const store = storeOn(table, { clock: watch });
    const cacheKey = 'next/build/build-1/page';
    for (const pinned of [false, true]) {
      await make(a, '/page', page('one'));
      if (pinned) await store.pin({ cacheKey, untilMs: FOREVER_MS });
      watch.advance(3601_000);
      if (pinned) await store.unpin({ cacheKey });
      const maker = a.request();
      const previous = await maker.get('/page', pageContext);
      assert.equal(verdict(previous), 'blocking', 'regenerated first');
      await maker.set('/page', previous?.value ?? null, { cacheControl: { revalidate: 30, expire: 3600 } });
      const other = await b.request().get('/page', pageContext);
      assert.equal(html(other), pinned ? 'one' : undefined);
      if (pinned) assert.equal(other?.cacheControl?.revalidate, 1);
      await store.breakLease({ cacheKey, record: await store.read({ cacheKey }) });
    }
  },
);

onStores('an unreachable table is a cache miss and opens the circuit breaker', async ({ start, table }) => {
  const ddb = table.connect({ maxAttempts: 1 });
  injectFaults(ddb, () => 'not applied');
  const warned: string[] = [];
  const request = start({ ddb, warn: (message) => warned.push(message) }).request();
  assert.equal(await request.get('/page', pageContext), null);
  await request.set('/page', page('one'), minute);
  assert.equal(warned[0], 'a look-up failed');
  assert.equal(warned.length, 1, 'the circuit is open');
});

onStores('a throttled table is a cache miss, and stores nothing until it answers again', async (s) => {
  const ddb = s.table.connect({ maxAttempts: 2 });
  let isThrottled = true;
  ddb.middlewareStack.add(
    (next) => async (args) => {
      if (!isThrottled) return next(args);
      const message = 'the level of throughput was exceeded';
      throw new ProvisionedThroughputExceededException({ message, $metadata: { httpStatusCode: 400 } });
    },
    { step: 'finalizeRequest', priority: 'low', name: 'throttle' },
  );
  const warned: string[] = [];
  const process = s.start({ ddb, outageSeconds: 1, warn: (message) => warned.push(message) });
  const request = process.request();
  assert.equal(await request.get('/page', pageContext), null);
  await request.set('/page', page('one'), minute);
  assert.deepEqual(warned, ['a look-up failed']);
  await process.request().revalidateTag('news'); // it is kept, and sent again
  isThrottled = false;
  s.watch.advance(2000);
  while ((await sequenceOf(s.table)) === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  await make(process, '/page', page('two'));
  assert.equal(html(await process.request().get('/page', pageContext)), 'two');
});

onStores('a table that does not answer is a cache miss after callSeconds', async ({ start, table }) => {
  const ddb = table.connect();
  ddb.middlewareStack.add(() => () => new Promise(() => {}), { step: 'initialize', name: 'silence' });
  const warned: string[] = [];
  const options = {
    ddb,
    callSeconds: 0.05,
    warn: (message: string, details: unknown) => warned.push(`${message}: ${inspect(details)}`),
  };
  assert.equal(await start(options).request().get('/page', pageContext), null);
  assert.match(warned.join(), /^a look-up failed: .*no answer within 50 ms/s);
});

async function sequenceOf({ ddb, tableName }: TestTable): Promise<number> {
  const Key = { pk: { S: 'PURGE' }, sk: { S: 'SEQ' } };
  const { Item } = await ddb.send(new GetItemCommand({ TableName: tableName, Key, ConsistentRead: true }));
  return Number(Item?.['seq']?.N ?? 0);
}

onStores(
  'marks are found by processes that start later or missed part of the log',
  async ({ start, table, verdict }) => {
    const [a, b] = [start(), start()];
    await make(a, '/page', page('one', 'news'));
    assert.equal(verdict(await b.request().get('/page', pageContext)), 'fresh');
    await a.request().revalidateTag('unrelated');
    await a.request().revalidateTag('news');
    await a.request().revalidateTag('unrelated');
    // The log is trimmed before the other process has read it.
    for (const seq of ['1', '2']) {
      const Key = { pk: { S: 'PURGE' }, sk: { S: `LOG#${seq.padStart(20, '0')}` } };
      await table.ddb.send(new DeleteItemCommand({ TableName: table.tableName, Key }));
    }
    const other = b.request();
    assert.equal(verdict(await other.get('/page', pageContext)), 'missing');
    await other.set('/page', page('two', 'news'), minute);
    const late = start();
    assert.equal(verdict(await late.request().get('/page', pageContext)), 'fresh');
    await a.request().revalidateTag('news');
    assert.equal(verdict(await start().request().get('/page', pageContext)), 'missing');
  },
);

onStores('a malformed log row loses no purge', async ({ start, table, verdict }) => {
  const [a, b] = [start(), start()];
  await make(a, '/page', page('one', 'news'));
  assert.equal(verdict(await b.request().get('/page', pageContext)), 'fresh');
  await a.request().revalidateTag('news');
  const Item = { pk: { S: 'PURGE' }, sk: { S: `LOG#${'1'.padStart(20, '0')}` }, targets: { S: 'odd' } };
  await table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item }));
  assert.equal(verdict(await b.request().get('/page', pageContext)), 'missing');
});

onStores('a purge of many tags is seen by all processes', async ({ start, verdict }) => {
  const [a, b] = [start(), start()];
  await make(a, '/page', page('one', 'tag-199'));
  await b.request().revalidateTag(Array.from({ length: 200 }, (_, i) => `tag-${i}`));
  assert.equal(verdict(await a.request().get('/page', pageContext)), 'missing');
});

onStores(
  'with trustSeconds metadata is served from memory, except after a purge by the same process',
  async ({ start, watch, verdict }) => {
    const [a, b] = [start({ trustSeconds: 10 }), start()];
    await make(a, '/page', page('one', 'news'));
    assert.equal(verdict(await a.request().get('/page', pageContext)), 'fresh');
    await b.request().revalidateTag('news');
    assert.equal(verdict(await a.request().get('/page', pageContext)), 'fresh', 'served from memory');
    watch.advance(11_000);
    const maker = a.request();
    assert.equal(await maker.get('/page', pageContext), null);
    await maker.set('/page', page('two', 'news'), minute);
    await a.request().revalidateTag('news');
    assert.equal(await a.request().get('/page', pageContext), null);
  },
);

onStores('identical content is stored once', async ({ start, bucket, watch }) => {
  const a = start();
  await make(a, '/page', page('one'));
  watch.advance(61_000);
  await make(a, '/page', page('one'));
  watch.advance(1000);
  const listed = await bucket.s3.send(new ListObjectsV2Command({ Bucket: bucket.name }));
  assert.equal(listed.KeyCount, 1);
  const answer = await a.request().get('/page', pageContext);
  assert.equal(answer?.cacheControl?.revalidate, 59, 'and is fresh again');
});

onStores('a page with more tags than fit into a row is stored, and no revalidation of it is lost', async (s) => {
  const warned: string[] = [];
  // Nothing renders the purged page for which the second process would wait.
  const waitSeconds = 1;
  const [a, b] = [s.start({ waitSeconds, warn: (message) => warned.push(message) }), s.start({ waitSeconds })];
  const tags = Array.from({ length: 4500 }, (_, i) => `a-tag-of-a-product-${i}-`.padEnd(100, 'x'));
  for (const [text, tag, options] of [
    ['one', tags[4499], undefined],
    ['two', 'a tag that it may have', undefined],
    ['three', tags[0], { expire: 31536000 }],
  ] as const) {
    await make(a, '/list', page(text, ...tags));
    const seen = await b.request().get('/list', pageContext);
    assert.deepEqual([html(seen), s.verdict(seen)], [text, 'fresh']);
    await b.request().revalidateTag(String(tag), options);
    for (const process of [a, b]) {
      const verdict = s.verdict(await process.request({ purpose: 'prefetch' }).get('/list', pageContext));
      assert.equal(verdict === 'missing', options === undefined, tag);
    }
  }
  assert.equal(warned.length, 1, warned.join('\n'));
  assert.match(String(warned[0]), /^the page next\/build\/build-1\/list has 4500 tags of 454500 bytes/);
  await make(a, '/small', page('small'));
  assert.equal(html(await b.request().get('/small', pageContext)), 'small', 'the circuit is closed');
});

onStores('paths of any length and characters can be cached', async ({ start }) => {
  const a = start();
  for (const path of [`/${'x'.repeat(5000)}`, '/ü/%/#?', '/..//', `/${randomUUID()}`]) {
    await make(a, path, page(path));
    assert.equal(html(await a.request().get(path, pageContext)), path);
  }
});

test('the handler rejects use in cacheHandlers', () => {
  const Handler = createCacheHandler();
  for (const method of ['refreshTags', 'getExpiration', 'updateTags', 'expireTags']) {
    assert.throws(() => method in Handler, /set cacheHandler, in the singular/, method);
  }
  assert.ok('prototype' in Handler);
});

test('next build and next dev need no table, and keep fetches in memory', async () => {
  const Handler = createCacheHandler();
  const dev = new Handler({ dev: true });
  await dev.set('hash', fetched('one'), { fetchCache: true, tags: ['data'] });
  await dev.set('/page', page('one'), minute);
  assert.deepEqual((await new Handler({ dev: true }).get('hash', { kind: 'FETCH' }))?.value, fetched('one'));
  assert.equal(await dev.get('/page', pageContext), null);
  await dev.revalidateTag('data');
  assert.equal(await dev.get('hash', { kind: 'FETCH' }), null);
});
