/** What a visit reads from the table and the bucket. */

import assert from 'node:assert/strict';
import { S3Client } from '@aws-sdk/client-s3';

import { Records } from '../../src/next/records.js';
import { observe } from '../faults.js';
import { itemsOf, storeOn } from '../isr/table.js';
import { newBuild } from './builds.js';
import { fetched, firstEngine, html, make, minute, onStores, page, pageContext } from './processes.js';

/** Counts the calls of the table's and the bucket's clients since the last count. */
function counter(ddb: Parameters<typeof observe>[0], s3: S3Client): () => Record<string, number> {
  const commands: string[] = [];
  observe(ddb, commands);
  observe(s3 as unknown as typeof ddb, commands);
  return () => {
    const counts: Record<string, number> = {};
    for (const command of commands.splice(0)) counts[command] = (counts[command] ?? 0) + 1;
    return counts;
  };
}

onStores('a visit of a fresh page in memory reads the log once, and within trustSeconds nothing', async (s) => {
  const ddb = s.table.connect();
  const count = counter(ddb, s.bucket.s3);
  for (const [trustSeconds, expected] of [
    [0, { Query: 1 }],
    [1, {}],
  ] as const) {
    const a = s.start({ ddb, trustSeconds });
    await make(a, '/page', page('one', 'news'));
    s.watch.advance(11_000); // a process that has just started keeps no rows
    await a.request().get('/page', pageContext);
    count();
    for (let i = 0; i < 3; i++) {
      assert.equal(html(await a.request().get('/page', pageContext)), 'one');
      assert.deepEqual(count(), expected, `trustSeconds ${trustSeconds}`);
    }
    s.watch.advance(2000);
    await a.request().get('/page', pageContext);
    assert.deepEqual(count(), { Query: 1 }, 'the log');
    s.watch.advance(58_000);
    await make(a, '/page', page('one', 'news')); // for the next turn
  }
});

onStores('a body that is read slowly is fresh for as long as one that is read at once', async (s, t) => {
  const { endpoint, accessKeyId, secretAccessKey } = s.bucket;
  const credentials = { accessKeyId, secretAccessKey };
  const slow = new S3Client({ endpoint, region: 'us-east-1', credentials, forcePathStyle: true });
  t.after(() => slow.destroy());
  slow.middlewareStack.add(
    (next) => async (args) => {
      s.watch.advance(2000);
      return next(args);
    },
    { step: 'initialize', name: 'slowness' },
  );
  const a = s.start();
  await make(a, '/page', page('one'));
  s.watch.advance(61_000);
  assert.equal(s.verdict(await a.request().get('/page', pageContext)), 'stale', 'it is regenerated here');
  const answer = await s.start({ s3: slow }).request().get('/page', pageContext);
  assert.deepEqual([html(answer), s.verdict(answer)], ['one', 'fresh'], 'it is regenerated elsewhere, for a second');
});

onStores('many visits at the same time share reads of the log', async ({ start, table, bucket, watch }) => {
  const ddb = table.connect();
  const count = counter(ddb, bucket.s3);
  const a = start({ ddb });
  await make(a, '/page', page('one'));
  watch.advance(11_000);
  await a.request().get('/page', pageContext);
  count();
  await Promise.all(Array.from({ length: 100 }, () => a.request().get('/page', pageContext)));
  assert.deepEqual(count(), { Query: 1 });
});

onStores('a page in memory is read again after a minute, and when it is not fresh', async (s) => {
  const ddb = s.table.connect();
  const count = counter(ddb, s.bucket.s3);
  const a = s.start({ ddb });
  const request = a.request();
  await request.get('/page', pageContext);
  await request.set('/page', page('one'), { cacheControl: { revalidate: 3600 } });
  s.watch.advance(11_000);
  await a.request().get('/page', pageContext);
  count();
  s.watch.advance(59_000);
  await a.request().get('/page', pageContext);
  assert.equal(count()['Query'], 1);
  s.watch.advance(2000);
  await a.request().get('/page', pageContext);
  assert.equal(count()['Query'], 2, 'the page and the log');
});

onStores('a page in memory follows every change of it by others', async ({ start, table, watch, verdict }) => {
  const store = storeOn(table, { clock: watch });
  const cacheKey = 'next/build/build-1/page';
  const [a, b] = [start(), start()];
  await make(a, '/page', page('one', 'news'));
  const state = async () => verdict(await b.request().get('/page', pageContext));
  const warm = async () => {
    watch.advance(11_000);
    assert.equal(await state(), 'fresh');
    assert.equal(await state(), 'fresh');
  };
  const again = async () => {
    await make(a, '/page', page('one', 'news'));
    await warm();
  };
  await warm();
  await store.purge([{ kind: 'key', value: cacheKey }], { hard: true });
  assert.equal(await state(), 'missing');
  await store.breakLease({ cacheKey, record: await store.read({ cacheKey }) });
  await again();
  await store.purge([{ kind: 'tag', value: 'news' }], { hard: true });
  assert.equal(await state(), 'missing');
  await store.breakLease({ cacheKey, record: await store.read({ cacheKey }) });
  await again();
  await store.pin({ cacheKey, untilMs: watch.now() + 3600_000 });
  watch.advance(58_000);
  assert.equal(await state(), 'fresh', 'pinned');
});

onStores('a page that one process renders on demand is seen by others at once', async (s, t) => {
  const build = await newBuild(t, [], s.watch.now());
  const [a, b] = [s.start({ trustSeconds: 0 }, build), s.start({}, build)];
  await make(a, '/page', page('one'));
  s.watch.advance(11_000);
  assert.equal(html(await b.request().get('/page', pageContext)), 'one');
  const forged = a.request({ 'x-prerender-revalidate': 'guess' });
  assert.equal(s.verdict(await forged.get('/page', pageContext)), 'fresh');
  const demand = a.request({ 'x-prerender-revalidate': 'secret' });
  await demand.get('/page', pageContext);
  assert.equal(s.verdict(await b.request().get('/page', pageContext)), 'fresh', 'served while it is rendered');
  await demand.set('/page', page('two'), minute);
  assert.equal(html(await b.request().get('/page', pageContext)), 'two');
});

onStores('fetches in memory are used only within the window that the program asks for', async (s) => {
  const [a, b] = [s.start(), s.start()];
  const context = { kind: 'FETCH', tags: ['data'], revalidate: 30 } as const;
  const made = a.request();
  await made.get('hash', context);
  await made.set('hash', fetched('one'), { fetchCache: true, tags: ['data'] });
  s.watch.advance(11_000);
  const body = async () => (await b.request().get('hash', context))?.value?.['data'] as { body: string };
  assert.equal((await body()).body, 'one');
  s.watch.advance(20_000);
  await a.request().set('hash', fetched('two'), { fetchCache: true, tags: ['data'] });
  assert.equal((await body()).body, 'two');
});

onStores(
  'a visit of a page with 10,000 purged tags in the table costs as much as without',
  async (s) => {
    const ddb = s.table.connect();
    const count = counter(ddb, s.bucket.s3);
    const [a, b] = [s.start({ ddb }), s.start()];
    const tags = Array.from({ length: 10_000 }, (_, i) => `tag-${i}`);
    await make(a, '/page', page('one', ...tags.slice(0, 100)));
    for (let at = 100; at < tags.length; at += 900) await b.request().revalidateTag(tags.slice(at, at + 900));
    s.watch.advance(11_000);
    await a.request().get('/page', pageContext);
    await a.request().get('/page', pageContext);
    count();
    assert.equal(html(await a.request().get('/page', pageContext)), 'one');
    assert.deepEqual(count(), { Query: 1 });
    await b.request().revalidateTag('tag-50');
    assert.equal(await a.request().get('/page', pageContext), null);
  },
  firstEngine,
);

onStores('pages leave no rows of their tags, and repeated revalidations one mark', async ({ start, table }) => {
  const a = start();
  for (let i = 0; i < 20; i++) await make(a, `/page-${i}`, page('one', `own-${i}`, 'all'));
  const ofPages = await itemsOf(table);
  assert.deepEqual(new Set(ofPages.map((row) => row['sk']?.S)), new Set(['META']));
  for (let i = 0; i < 5; i++) await a.request().revalidateTag('all');
  const marks = (await itemsOf(table)).filter((row) => row['sk']?.S?.startsWith('MARK#'));
  assert.equal(marks.length, 1);
  assert.ok(Number(marks[0]?.['ttl']?.N) > 0, 'and it expires');
});

onStores("a page is cached again after revalidateTag(tag, 'max'), also twice in a row", async (s) => {
  const [a, b] = [s.start(), s.start()];
  await make(a, '/page', page('one', 'news'));
  for (const text of ['two', 'three']) {
    for (let i = 0; i < 2; i++) await a.request().revalidateTag('news', { expire: 31_536_000 });
    const maker = b.request();
    assert.equal(s.verdict(await maker.get('/page', pageContext)), 'stale');
    await maker.set('/page', page(text, 'news'), minute);
    for (const other of [a, b]) {
      const answer = await other.request().get('/page', pageContext);
      assert.equal(html(answer), text);
      assert.equal(s.verdict(answer), 'fresh');
      assert.ok(Number(answer?.cacheControl?.revalidate) > 30, 'for its whole window');
    }
  }
});

onStores('records of changed pages are not kept for ten seconds', async ({ watch, table }) => {
  const records = new Records(watch);
  const record = await storeOn(table).read({ cacheKey: 'x' });
  const keep = (key: string) => {
    records.set(key, record, watch.elapsed());
    return records.get(key) !== undefined;
  };
  assert.ok(keep('/a') && keep('/b'));
  records.changed('/a');
  assert.equal(records.get('/a'), undefined);
  assert.equal(keep('/a'), false);
  assert.ok(records.get('/b'));
  watch.advance(11_000);
  assert.ok(keep('/a'));
  for (let i = 0; i <= 10_000; i++) records.changed(`/${i}`); // more than are remembered: all pages
  assert.equal(records.get('/a'), undefined);
  assert.equal(keep('/b'), false);
  watch.advance(11_000);
  records.changed(undefined);
  assert.equal(keep('/b'), false);
});
