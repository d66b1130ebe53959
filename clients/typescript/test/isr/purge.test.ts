/** Purges: their rows and log targets, their outcomes under faults, and the pages that marks cover. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { systemClock } from '../../src/clock.js';
import { InvalidInputError, InvalidKeyError, MalformedRowError, PurgedError } from '../../src/errors.js';
import {
  type FaceTheoryIsrMetaStoreConfig,
  freshness,
  hashedPartition,
  hostTarget,
  mergePurgeStates,
  type PurgeTarget,
} from '../../src/isr/index.js';
import { covers } from '../../src/isr/purgetarget.js';
import { skippingClock } from '../clocks.js';
import { onEngines, type TestTable } from '../engines.js';
import { before, cancel, type Fault, injectFaults, NoReply, observe } from '../faults.js';
import { generation, itemAt, itemsOf, put, StoppedClock, storeOn } from './table.js';
import { markVector } from './vectors.js';

const cacheKey = 'example.com/blog/a';
const pk = hashedPartition(cacheKey);
const day = 24 * 3600;

/** A purge of one target of each kind. */
const everything: PurgeTarget[] = [
  { kind: 'key', value: cacheKey },
  { kind: 'tag', value: 'posts' },
  { kind: 'prefix', value: 'example.com/blog/' },
  { kind: 'tenant', tenant: 'acme' },
  { kind: 'site' },
];

test('a target covers what it names', () => {
  const page = { tenant: 'acme', key: 'example.com/blog/a?page=2' };
  const cases: [PurgeTarget | { kind: string; tenant?: string; value?: string }, boolean][] = [
    [{ kind: 'key', tenant: 'acme', value: page.key }, true],
    [{ kind: 'key', value: page.key }, false],
    [{ kind: 'tag', tenant: 'acme', value: 'posts' }, true],
    [{ kind: 'tag', tenant: 'acme', value: 'post' }, false],
    [{ kind: 'prefix', tenant: 'acme', value: 'example.com/blog/' }, true],
    [{ ...hostTarget('EXAMPLE.com:443'), tenant: 'acme' }, true],
    [{ kind: 'prefix', tenant: 'acme', value: 'example.org/' }, false],
    [{ kind: 'prefix', value: 'example.com/' }, false],
    [{ kind: 'tenant', tenant: 'acme' }, true],
    [{ kind: 'tenant', tenant: 'acme2' }, false],
    [{ kind: 'site' }, true],
    [{ kind: 'site', tenant: 'acme2' }, false],
    [{ kind: 'moon', tenant: 'acme' }, true],
    [{ kind: 'moon' }, false],
  ];
  for (const [{ kind, tenant = '', value = '' }, covered] of cases) {
    const target = { kind, tenant, value };
    assert.equal(covers(target, page, ['post-1', 'posts']), covered, JSON.stringify(target));
  }
});

test('the pages of a host are a prefix', () => {
  assert.deepEqual(hostTarget('Example.com.'), { kind: 'prefix', value: 'example.com/' });
  assert.deepEqual(hostTarget('localhost:8080'), { kind: 'prefix', value: 'localhost:8080/' });
  for (const host of ['', 'example.com/', 'a b', 'https://example.com', 'x?y']) {
    assert.throws(
      () => hostTarget(host),
      (error) => error instanceof InvalidInputError || error instanceof InvalidKeyError,
      host,
    );
  }
});

onEngines('invalid purges are rejected, and nothing is written', async (table) => {
  const store = storeOn(table, { tenant: 'acme' });
  const long = Array.from(
    { length: 98 },
    (_, i): PurgeTarget => ({ kind: 'prefix', value: `${i}${'x'.repeat(3000)}` }),
  );
  const refused: [PurgeTarget[], object?][] = [
    [[]],
    [Array.from({ length: 99 }, (_, i) => ({ kind: 'tag', value: `tag-${i}` }))],
    [long],
    [[{ kind: 'moon', value: 'x' } as never]],
    [[undefined as never]],
    [[{ kind: 'key' }]],
    [[{ kind: 'key', value: 'x', tenant: 'other' }]],
    [[{ kind: 'key', value: 'x', pk: 'PURGE' }]],
    [[{ kind: 'tag', value: 'x', pk: 'CACHE#x' }]],
    [[{ kind: 'tag', value: '' }]],
    [[{ kind: 'tag', value: 'a\nb' }]],
    [[{ kind: 'tag', value: '\ud800' }]],
    [[{ kind: 'tag', value: 'x'.repeat(1025) }]],
    [[{ kind: 'tag', value: 'x', tenant: 'a#b' }]],
    [[{ kind: 'prefix', value: 'x'.repeat(4097) }]],
    [[{ kind: 'tenant', tenant: '' }]],
    [[{ kind: 'tenant', value: 'x' }]],
    [[{ kind: 'site', tenant: 'acme' }]],
    [[{ kind: 'site', value: 'x' }]],
    [[{ kind: 'tag', value: 'x' }], { hard: true, expireSeconds: 1 }],
    [[{ kind: 'tag', value: 'x' }], { expireSeconds: -1 }],
    [[{ kind: 'key', value: 'x' }], { expireSeconds: 1 }],
  ];
  for (const [targets, options] of refused) {
    await assert.rejects(
      store.purge(targets, options),
      (error) => error instanceof InvalidInputError || error instanceof InvalidKeyError,
      JSON.stringify(targets).slice(0, 100),
    );
  }
  assert.deepEqual(await itemsOf(table), []);
  assert.throws(() => storeOn(table, { markLifetimeSeconds: 60 }), /at least 7776000, 90 days/);
});

/** Reads the rows of the purge log, and PURGE of the page, by sort key. */
async function purgeRows(table: TestTable): Promise<Record<string, unknown>> {
  const rows = (await itemsOf(table)).map(({ pk: _, sk, id: __, ...members }) => [
    sk?.S?.replace(/[0-9a-f]{64}/, '…'),
    members,
  ]);
  return Object.fromEntries(rows);
}

onEngines('a soft purge writes one row for each target, and leaves the attributes of other purges', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  const at = { N: '1800000000' };
  const marks = { hard_seq: { N: '1' }, expire_seq: { N: '2' }, expire_at: { N: '1900000000' }, other: { S: 'kept' } };
  await store.purge([{ kind: 'tag', value: 'posts' }]);
  const tag = (await itemsOf(table)).find((row) => row['sk']?.S?.startsWith('MARK#'));
  await put(table, { ...tag, ...marks } as never);
  assert.deepEqual(await store.purge(everything, { confirm: true }), { seq: 2 });
  const mark = (value: string) => ({
    value: { S: value },
    at,
    seq: { N: '2' },
    ttl: { N: String(1_800_000_001 + 90 * day) },
  });
  const { value: _, ...page } = mark('');
  const { ['LOG#00000000000000000001']: __, ...rows } = await purgeRows(table);
  assert.deepEqual(rows, {
    SEQ: { seq: { N: '2' }, mark_lifetime: { N: String(90 * day) } },
    PURGE: page,
    'MARK##tag#…': { ...mark('posts'), ...marks },
    'MARK##prefix#…': mark('example.com/blog/'),
    'MARK#acme#tenant#…': mark('acme'),
    'MARK##site#…': mark('*'),
    'LOG#00000000000000000002': {
      ttl: { N: '1800003601' },
      targets: {
        L: [
          { M: { kind: { S: 'reload' }, key: { S: cacheKey } } },
          { M: { kind: { S: 'tag' }, value: { S: 'posts' }, at } },
          { M: { kind: { S: 'prefix' }, value: { S: 'example.com/blog/' }, at } },
          { M: { kind: { S: 'tenant' }, tenant: { S: 'acme' }, value: { S: 'acme' }, at } },
          { M: { kind: { S: 'site' }, value: { S: '*' }, at } },
          { M: { kind: { S: 'confirm' } } },
        ],
      },
    },
  });
});

onEngines('the lifetime of marks is only raised explicitly, and only grows', async (table) => {
  const store = storeOn(table, { metaTtlSeconds: 200 * day });
  const soft: PurgeTarget[] = [{ kind: 'tag', value: 'posts' }];
  await store.purge(soft);
  // Marks that exist would not outlive a longer one.
  assert.equal((await store.sequence()).markLifetimeSeconds, 90 * day);
  await storeOn(table, { markLifetimeSeconds: 202 * day }).purge(soft);
  await store.purge(soft);
  assert.equal((await store.sequence()).markLifetimeSeconds, 202 * day);
});

onEngines('a hard purge adds its sequence; one call and concurrent calls write a row once', async (table) => {
  const ddb = table.connect();
  const commands: string[] = [];
  const store = storeOn(table, { ddb });
  observe(ddb, commands);
  const soft = { kind: 'tag', value: 'posts' } as const;
  const receipts = await Promise.all([
    store.purge([{ kind: 'tag', value: 'first' }]), // a transaction of its own; during it the others gather
    store.purge([soft, soft, { kind: 'key', value: cacheKey }]),
    store.purge([soft], { hard: true }),
    store.purge([{ kind: 'key', value: cacheKey }, soft], { confirm: true }),
  ]);
  assert.deepEqual(
    receipts.map(({ seq }) => seq),
    [1, 2, 2, 2],
  );
  assert.equal(commands.filter((command) => command === 'TransactWriteItems').length, 2);
  assert.equal((await itemAt(table, pk, 'PURGE'))?.['hard_seq'], undefined);
  const [, change] = await store.changes(0);
  assert.deepEqual(change?.reload, [{ tenant: '', key: cacheKey }]);
  assert.deepEqual(change?.marks.map(markVector), [
    { kind: 'tag', value: 'posts', seq: 2, hard_seq: 2, at: (change?.marks[0]?.atMs ?? 0) / 1000 },
  ]);
  assert.equal(change?.confirm, true);
});

onEngines('98 targets need one transaction', async (table) => {
  const store = storeOn(table);
  const targets = Array.from({ length: 98 }, (_, i): PurgeTarget => ({ kind: 'tag', value: `tag-${i}` }));
  assert.deepEqual(await store.purge(targets), { seq: 1 });
  assert.equal((await store.marks()).length, 98);
});

onEngines('an expiry that has come outlives the next one', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  const tag = { kind: 'tag', value: 'posts' } as const;
  await store.purge([tag], { expireSeconds: 10 });
  const coverage = async () => (await store.covering({ cacheKey, tags: ['posts'] })).hardSeq;
  assert.equal(await coverage(), 0);
  clock.advance(10_000);
  assert.equal(await coverage(), 1);
  await store.purge([tag], { expireSeconds: 10 });
  assert.equal(await coverage(), 1);
  await store.purge([tag]);
  clock.advance(10_000);
  assert.equal(await coverage(), 2, 'a soft purge does not prevent it');
});

onEngines('the marks of the table, and those that cover a page', async (table) => {
  const clock = new StoppedClock();
  const acme = storeOn(table, { clock, tenant: 'acme' });
  const other = storeOn(table, { clock });
  await other.purge([
    { kind: 'tag', value: 'posts' },
    { kind: 'tenant', tenant: 'acme2' },
  ]);
  await acme.purge(
    [
      { kind: 'tag', value: 'news' },
      { kind: 'prefix', value: 'example.org/' },
    ],
    { hard: true },
  );
  const state = (p = acme, tags: string[] = ['posts', 'news-1']) => p.covering({ cacheKey, tags });
  const lifetime = { markLifetimeSeconds: 90 * day, build: 0 };
  assert.deepEqual(await state(), { seq: 0, hardSeq: 0, atMs: 0, ...lifetime });
  assert.deepEqual(await state(other), { seq: 1, hardSeq: 0, atMs: 1_800_000_000_000, ...lifetime });
  assert.deepEqual(await state(acme, ['news']), { seq: 2, hardSeq: 2, atMs: 1_800_000_000_000, ...lifetime });
  clock.advance(5000);
  await acme.purge([{ kind: 'prefix', value: 'example.com/' }]);
  assert.equal((await state()).seq, 3);
  await acme.purge([{ kind: 'tenant' }], { hard: true });
  assert.deepEqual(await state(), { seq: 4, hardSeq: 4, atMs: 1_800_000_005_000, ...lifetime });
  assert.equal((await state(other)).seq, 1);
  await other.purge([{ kind: 'site' }]);
  assert.equal((await state()).seq, 5);
  assert.equal((await state(other)).seq, 5);
  const listed = (await acme.marks()).map(({ tenant, kind, value, seq, hardSeq }) =>
    [tenant, kind, value, seq, hardSeq].join(' '),
  );
  assert.deepEqual(listed.sort(), [
    ' site  5 0',
    ' tag posts 1 0',
    'acme prefix example.com/ 3 0',
    'acme prefix example.org/ 2 2',
    'acme tag news 2 2',
    'acme tenant  4 4',
    'acme2 tenant  1 0',
  ]);
});

onEngines('a malformed mark is an error', async (table) => {
  const store = storeOn(table);
  const mark = { pk: { S: 'PURGE' }, sk: { S: 'MARK##moon#0' }, value: { S: 'x' }, seq: { N: '1' }, at: { N: '1' } };
  await put(table, mark);
  assert.deepEqual((await store.marks()).map(markVector), [{ kind: 'moon', value: 'x', seq: 1, at: 1 }]);
  assert.equal((await store.covering({ cacheKey })).seq, 1, 'an unknown kind covers every page');
  for (const bad of [{ value: { N: '1' } }, { seq: { S: '1' } }, { at: { NULL: true } }, { sk: { S: 'MARK#x' } }]) {
    await put(table, { ...mark, ...bad } as never);
    await assert.rejects(store.marks(), MalformedRowError, JSON.stringify(bad));
  }
});

/** Publishes a generation of the page with the tag `posts`, and reads its state. */
async function publishPost(table: TestTable, config: Partial<FaceTheoryIsrMetaStoreConfig> = {}) {
  const store = storeOn(table, config);
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  const next = generation('g1', Date.now(), { tags: ['posts'], staleSeconds: 60 });
  await store.publish(lease, lease.record, next, { history: true });
  return async () => {
    const { entry, purge } = await store.read({ cacheKey });
    assert.ok(entry);
    return freshness(entry, mergePurgeStates(purge, await store.covering({ cacheKey, tags: entry.tags })), Date.now());
  };
}

onEngines('a purge ends the freshness of what was rendered before, and a rollback respects it', async (table) => {
  const store = storeOn(table);
  const state = await publishPost(table);
  assert.equal(await state(), 'fresh');
  await store.purge([{ kind: 'key', value: cacheKey }]);
  assert.equal(await state(), 'stale');
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  await store.publish(lease, lease.record, generation('g2', Date.now(), { tags: ['posts'] }), { history: true });
  assert.equal(await state(), 'fresh');
  await store.purge([{ kind: 'site' }], { hard: true });
  assert.equal(await state(), 'purged');
  await assert.rejects(store.rollback({ cacheKey, to: 'g1' }), PurgedError);
});

const pairs: Fault[] = ['reply lost', 'not applied'];

for (const fault of pairs) {
  onEngines(`a purge is retried with its client token: ${fault}`, async (table) => {
    const ddb = table.connect({ maxAttempts: 1 });
    injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n <= 2 ? fault : undefined));
    const store = storeOn(table, { ddb });
    assert.deepEqual(await store.purge(everything, { hard: true }), { seq: 1 });
    assert.equal((await store.sequence()).seq, 1);
    assert.equal((await store.changes(0)).length, 1);
  });

  onEngines(`an unanswered purge is settled by the log: ${fault}`, async (table) => {
    const ddb = table.connect({ maxAttempts: 1 });
    // Its transactions, but not the revoking one, which only increments SEQ.
    injectFaults(ddb, (command, _, input) => {
      const size = (input as { TransactItems?: unknown[] }).TransactItems?.length ?? 0;
      return command === 'TransactWriteItems' && size > 2 ? fault : undefined;
    });
    const store = storeOn(table, { ddb, clock: skippingClock(), retryDelayMs: 1_000 });
    const purging = store.purge(everything);
    if (fault === 'reply lost') assert.deepEqual(await purging, { seq: 1 });
    else await assert.rejects(purging, NoReply);
    assert.equal((await store.marks()).length, fault === 'reply lost' ? 4 : 0);
    assert.equal((await itemAt(table, pk, 'PURGE')) !== undefined, fault === 'reply lost');
  });

  onEngines(`an unanswered purge that another change overtakes is settled by the log: ${fault}`, async (table) => {
    const ddb = table.connect({ maxAttempts: 1 });
    injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n === 1 ? fault : undefined));
    before(ddb, 'TransactWriteItems', 2, () => storeOn(table).purge([{ kind: 'tag', value: 'theirs' }]));
    const store = storeOn(table, { ddb });
    assert.deepEqual(await store.purge([{ kind: 'tag', value: 'ours' }]), { seq: fault === 'reply lost' ? 1 : 2 });
    assert.equal((await store.sequence()).seq, 2);
    assert.equal((await store.marks()).length, 2);
  });
}

onEngines('a purge whose caller leaves is completed once it is sent, and else not made', async (table) => {
  const ddb = table.connect();
  const store = storeOn(table, { ddb });
  const caller = new AbortController();
  before(ddb, 'TransactWriteItems', 1, async () => caller.abort(new Error('gone')));
  const { signal } = caller;
  const sent = store.purge([{ kind: 'tag', value: 'sent' }], { signal });
  const waiting = store.purge([{ kind: 'tag', value: 'waiting' }], { signal });
  await assert.rejects(waiting, /gone/);
  assert.deepEqual(await sent, { seq: 1 });
  assert.deepEqual(
    (await store.marks()).map(({ value }) => value),
    ['sent'],
  );
});

onEngines('a purge reads SEQ again, after backoff, when another change was faster', async (table) => {
  const ddb = table.connect();
  const events: string[] = [];
  const clock = { ...systemClock(), sleep: async () => events.push('pause') > 0 };
  const store = storeOn(table, { ddb, clock });
  observe(ddb, events);
  before(ddb, 'TransactWriteItems', 1, () => storeOn(table).purge([{ kind: 'site' }]));
  assert.deepEqual(await store.purge([{ kind: 'site' }], { hard: true }), { seq: 2 });
  assert.deepEqual(events, ['GetItem', 'TransactWriteItems', 'pause', 'GetItem', 'TransactWriteItems']);
  assert.deepEqual(
    (await store.marks()).map(({ seq, hardSeq }) => [seq, hardSeq]),
    [[2, 2]],
  );
});

for (const code of ['TransactionConflict', 'ThrottlingError']) {
  onEngines(`a purge cancelled with ${code} is retried`, async (table) => {
    const ddb = table.connect();
    const met = cancel(ddb, code);
    assert.deepEqual(await storeOn(table, { ddb }).purge(everything), { seq: 1 });
    assert.equal(met(), 1);
  });
}
