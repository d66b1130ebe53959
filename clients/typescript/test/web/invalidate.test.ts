/** Unsafe requests to pages in a cache on real stores (RFC 9111, section 4.4). */

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';

import { systemClock } from '../../src/clock.js';
import type { FaceTheoryIsrMetaStore } from '../../src/isr/store.js';
import { createPageCache, type PageCache, type PageCacheOptions, type Render } from '../../src/web/index.js';
import { onEngines, type TestTable } from '../engines.js';
import { storeOn } from '../isr/table.js';
import { until } from '../next/servers.js';
import { newBucket, noBucket, type TestBucket } from '../next/stores.js';

const host = 'example.com';

/** A site whose pages show how often they were rendered, and caches on one table and bucket. */
class Site {
  renders = 0;
  /** Answers unsafe requests. */
  answer: (request: Request) => Response = () => new Response('done');
  /** Called, and waited for, within each render. */
  rendering: () => Promise<void> | void = () => undefined;
  readonly render: Render = async (request) => {
    if (request.method !== 'GET') return this.answer(request);
    const n = ++this.renders;
    await this.rendering();
    return new Response(`page ${n}`, { headers: { 'cache-control': 'max-age=600' } });
  };
  readonly store: FaceTheoryIsrMetaStore;
  readonly table: TestTable;
  readonly bucket: TestBucket;

  constructor(table: TestTable, bucket: TestBucket) {
    this.table = table;
    this.bucket = bucket;
    this.store = storeOn(table);
  }

  cache(t: TestContext, options: Partial<PageCacheOptions> = {}): PageCache {
    const cache = createPageCache({
      hosts: [host, 'other.example'],
      query: ['q'],
      tableName: this.table.tableName,
      bucket: this.bucket.name,
      ddb: this.table.ddb,
      s3: this.bucket.s3,
      trustSeconds: 0,
      callSeconds: 30,
      waitSeconds: 60,
      warn: () => undefined,
      ...options,
    });
    t.after(() => cache.close());
    return cache;
  }

  async text(cache: PageCache, path: string): Promise<string> {
    return (await cache.handle(new Request(`http://${host}${path}`), this.render)).text();
  }

  send(cache: PageCache, path: string, method = 'POST'): Promise<Response> {
    return cache.handle(new Request(`http://${host}${path}`, { method }), this.render);
  }
}

function onStores(name: string, body: (site: Site, t: TestContext) => Promise<void>): void {
  onEngines(name, async (table, t) => {
    if (noBucket) {
      t.skip(noBucket);
      return;
    }
    await body(new Site(table, await newBucket(t)), t);
  });
}

onStores(
  'a successful unsafe request purges its page, Location and Content-Location in all processes',
  async (site, t) => {
    const [a, b] = [site.cache(t), site.cache(t)];
    // A page is purged once a second: @ is the number of the case, so that each has pages of its own.
    for (const [i, [isPurged, page, sent, method, status, fields]] of (
      [
        [true, '/@', '/@', 'POST', 200, {}],
        [true, '/@?q=1', '/@?q=1&utm_source=x', 'PUT', 200, {}],
        [true, '/@', '/@', 'DELETE', 202, {}],
        [true, '/@', '/@', 'PATCH', 303, { location: '/elsewhere' }],
        [true, '/@', '/@', 'FROBNICATE', 200, {}],
        [true, '/@', '/form', 'POST', 303, { location: '/@' }],
        [true, '/p/@', '/form', 'POST', 303, { location: 'https://EXAMPLE.com:443/%70/@#top' }],
        [true, '/p%C3%A9/@', '/form', 'POST', 303, { location: '/p\u00c3\u00a9/@' }],
        [true, '/d/@', '/d/form', 'POST', 201, { location: '@' }],
        [true, '/@', '/form', 'POST', 200, { 'content-location': '//example.com./@' }],
        [true, '/@', '/form', 'POST', 200, { location: 'http://[', 'content-location': '/@' }],
        [true, '/@', '/@?action=like', 'POST', 303, { location: '/@' }],
        [false, '/@', '/@', 'POST', 404, {}],
        [false, '/@', '/@', 'POST', 500, { location: '/@' }],
        [false, '/@', '/@', 'OPTIONS', 200, {}],
        [false, '/@', '/@', 'SEARCH', 200, {}],
        [false, '/@', '/@?action=like', 'POST', 200, {}],
        [false, '/@', '/form', 'POST', 303, { location: 'http://other.example/@' }],
        [false, '/@', '/form', 'POST', 303, { location: 'ftp://example.com/@' }],
        [false, '/@', '/form', 'POST', 303, { location: `/@?utm_source=${'x'.repeat(100_000)}` }],
      ] as const
    ).entries()) {
      const at = (text: string) => text.replace('@', `n${i}`);
      const headers = Object.entries(fields).map(([name, value]): [string, string] => [name, at(value)]);
      site.answer = () => new Response(null, { status, headers });
      const what = `${method} ${sent} ${status} ${JSON.stringify(fields).slice(0, 100)}`;
      const first = await site.text(a, at(page));
      assert.equal(await site.text(b, at(page)), first, what);
      await (await site.send(a, at(sent), method)).text();
      const after = [await site.text(b, at(page)), await site.text(a, at(page))];
      assert.equal(after[0] !== first, isPurged, what);
      assert.equal(after[1], after[0], what);
    }
  },
);

onStores('requests for pages that are not stored leave no rows, and pinned pages stay', async (site, t) => {
  const cache = site.cache(t);
  for (let i = 0; i < 20; i++) await site.send(cache, `/invented-${i}`);
  assert.equal((await site.store.sequence()).seq, 0);
  const first = await site.text(cache, '/p');
  await site.store.pin({ cacheKey: `${host}/p`, untilMs: Date.now() + 3_600_000 });
  const { seq } = await site.store.sequence();
  await site.send(cache, '/p');
  assert.equal(await site.text(cache, '/p'), first);
  assert.equal((await site.store.sequence()).seq, seq);
});

onStores('a visitor who comes after an unsafe request does not get a render that began before it', async (site, t) => {
  const cache = site.cache(t);
  let open = () => {};
  const gate = new Promise<void>((resolve) => (open = resolve));
  site.rendering = () => gate;
  const before = site.text(cache, '/p');
  await until('the render has begun', () => site.renders === 1);
  await site.send(cache, '/p');
  const after = site.text(cache, '/p');
  open();
  assert.deepEqual([await before, await after], ['page 1', 'page 2']);
  assert.equal(await site.text(cache, '/p'), 'page 2');
});

onStores('a flood of unsafe requests is merged, and the last of them has its effect', async (site, t) => {
  let ahead = 0; // the render takes ten seconds, so that the page is purged once a minute
  const clock = systemClock(() => Date.now() + ahead);
  const [a, b] = [site.cache(t, { clock }), site.cache(t, { clock })];
  site.rendering = () => {
    ahead += 10_000;
  };
  const first = await site.text(a, '/p');
  await Promise.all(Array.from({ length: 200 }, (_, i) => site.send(i % 2 ? a : b, '/p')));
  const { seq } = await site.store.sequence();
  assert.ok(seq <= 2, `${seq} purges`); // one by each process, if they read at the same time
  assert.notEqual(await site.text(a, '/p'), first);
  await a.close(); // makes the purges that wait
  await b.close();
  const made = (await site.store.sequence()).seq - seq;
  assert.ok(made >= 1 && made <= 2, `${made} purges`);
  site.rendering = () => undefined;
  // Within the interval a page is purged once more, at its end.
  const c = site.cache(t);
  await site.text(c, '/q');
  await site.send(c, '/q');
  const second = await site.text(c, '/q');
  await site.send(c, '/q');
  await until('the page is purged again', async () => (await site.text(c, '/q')) !== second);
});

onStores('a purge that fails is repeated, and its visitor does not wait for it', async (site, t) => {
  const [a, b] = [site.cache(t), site.cache(t)];
  const warnings: string[] = [];
  const ddb = site.table.connect({ maxAttempts: 1 });
  let isDown = false;
  ddb.middlewareStack.add(
    (next) => async (args) => {
      if (isDown) throw new Error('out of reach');
      return next(args);
    },
    { step: 'finalizeRequest' },
  );
  const cut = site.cache(t, { ddb, outageSeconds: 0.01, warn: (message) => warnings.push(message) });
  const first = await site.text(a, '/p');
  assert.equal(await site.text(cut, '/p'), first);
  isDown = true;
  assert.equal((await site.send(cut, '/p')).status, 200);
  isDown = false;
  assert.ok(warnings.includes('a purge after an unsafe request failed'));
  await until('the purge is made', async () => (await site.text(b, '/p')) !== first);
});
