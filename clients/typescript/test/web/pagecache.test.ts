/** Page caches on real stores. Two caches on one table stand for two processes. */

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { DeleteObjectsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';

import { systemClock } from '../../src/clock.js';
import { createPageCache, type PageCache, type PageCacheOptions, type Render } from '../../src/web/index.js';
import { onEngines, type TestTable } from '../engines.js';
import { wayTo } from '../faults.js';
import { storeOn } from '../isr/table.js';
import { newBucket, noBucket, type TestBucket } from '../next/stores.js';

const host = 'example.com';

/** A renderer that counts, and caches on one table and bucket. */
class Rig {
  readonly renders: Request[] = [];
  /** Answers a render; by default a page that is fresh for a minute. */
  respond: (request: Request, n: number) => Response | Promise<Response> = (_, n) => page(`page ${n}`);
  readonly render: Render = (request) => this.respond(request, this.renders.push(request));
  readonly warnings: string[] = [];
  readonly table: TestTable;
  readonly bucket: TestBucket;

  constructor(table: TestTable, bucket: TestBucket) {
    this.table = table;
    this.bucket = bucket;
  }

  cache(options: Partial<PageCacheOptions> = {}): PageCache {
    return createPageCache({
      hosts: [host],
      tableName: this.table.tableName,
      bucket: this.bucket.name,
      ddb: this.table.ddb,
      s3: this.bucket.s3,
      trustSeconds: 0,
      callSeconds: 30,
      waitSeconds: 60,
      warn: (message) => this.warnings.push(message),
      ...options,
    });
  }

  get(cache: PageCache, path = '/', init: RequestInit = {}): Promise<Response> {
    return cache.handle(new Request(`http://${host}${path}`, init), this.render);
  }

  async text(cache: PageCache, path = '/', init: RequestInit = {}): Promise<string> {
    return (await this.get(cache, path, init)).text();
  }
}

function page(text: string, headers: Record<string, string> = {}, status = 200): Response {
  return new Response(text, {
    status,
    headers: { 'cache-control': 'max-age=60', 'content-type': 'text/html', ...headers },
  });
}

function onStores(name: string, body: (rig: Rig, t: TestContext) => Promise<void>): void {
  onEngines(name, async (table, t) => {
    if (noBucket) {
      t.skip(noBucket);
      return;
    }
    await body(new Rig(table, await newBucket(t)), t);
  });
}

async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await holds()); ) {
    assert.ok(Date.now() < deadline, `${what}: not within a minute`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

onStores('a cold page is rendered once by two processes, and then served by both', async (rig) => {
  const two = [rig.cache(), rig.cache()] as const;
  rig.respond = async (_, n) => {
    await new Promise((resolve) => setTimeout(resolve, 200));
    return page(`page ${n}`);
  };
  const texts = await Promise.all(Array.from({ length: 40 }, (_, i) => rig.text(two[i % 2] as PageCache)));
  assert.deepEqual(new Set(texts), new Set(['page 1']));
  assert.equal(rig.renders.length, 1);
  const hit = await rig.get(two[1]);
  assert.match(hit.headers.get('cache-status') ?? '', /^isr; hit; ttl=\d+$/);
  assert.equal(hit.headers.get('content-type'), 'text/html');
  assert.equal(hit.headers.get('content-length'), '6');
  const etag = hit.headers.get('etag') ?? '';
  const unchanged = await rig.get(two[0], '/', { headers: { 'if-none-match': `"x", W/${etag}` } });
  assert.deepEqual([unchanged.status, await unchanged.text()], [304, '']);
  const head = await rig.get(two[0], '/', { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers.get('content-length'), await head.text()], [200, '6', '']);
  await Promise.all(two.map((cache) => cache.close()));
});

onStores('a purge by tag, key or prefix on one process takes effect on the other at once', async (rig) => {
  const [a, b] = [rig.cache(), rig.cache()];
  rig.respond = (_, n) => page(`page ${n}`, { 'cache-tag': 'news, front' });
  let n = 1;
  for (const target of [
    { kind: 'tag', value: 'news' },
    { kind: 'key', value: `${host}/` },
    { kind: 'prefix', value: `${host}/` },
  ] as const) {
    assert.equal(await rig.text(a), `page ${n}`);
    assert.equal(await rig.text(b), `page ${n}`);
    await a.purge([target], { hard: true });
    n++;
    assert.equal(await rig.text(b), `page ${n}`, target.kind);
    assert.equal(await rig.text(a), `page ${n}`);
  }
});

onStores('a stale page is served while one process regenerates it', async (rig) => {
  const two = [rig.cache({ staleSeconds: 3600 }), rig.cache({ staleSeconds: 3600 })] as const;
  let open = () => {};
  const gate = new Promise<void>((resolve) => (open = resolve));
  rig.respond = async (_, n) => {
    if (n > 1) await gate;
    return page(`page ${n}`, { 'cache-control': n > 1 ? 'max-age=600' : 'max-age=1' });
  };
  await rig.text(two[0]);
  await until(
    'the page is stale',
    async () => (await rig.get(two[0])).headers.get('cache-status')?.includes('stale') ?? false,
  );
  for (let i = 0; i < 5; i++) {
    for (const cache of two) assert.equal(await rig.text(cache), 'page 1');
  }
  await until('a render has begun', () => rig.renders.length === 2);
  open();
  await until('both have the new page', async () => {
    return (await Promise.all(two.map((cache) => rig.text(cache)))).every((text) => text === 'page 2');
  });
  assert.equal(rig.renders.length, 2);
  await Promise.all(two.map((cache) => cache.close()));
});

onStores('no visitor gets the response of another', async (rig) => {
  const cache = rig.cache();
  rig.respond = async (request) => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    const user = request.headers.get('cookie') ?? request.headers.get('authorization') ?? 'anonymous';
    return page(`for ${user}`, { 'cache-control': 'private, max-age=60', 'set-cookie': `seen=${user}` });
  };
  const visits = await Promise.all(
    Array.from({ length: 20 }, (_, i) => rig.text(cache, '/account', { headers: { cookie: `session=${i}` } })),
  );
  assert.deepEqual(
    visits,
    visits.map((_, i) => `for session=${i}`),
  );
  // Without an identity each visitor gets a response of his own, too: one in private is not shared.
  const before = rig.renders.length;
  const own = await Promise.all(Array.from({ length: 5 }, () => rig.text(cache, '/account')));
  assert.deepEqual(new Set(own), new Set(['for anonymous']));
  assert.equal(rig.renders.length - before, 5);
  // What is cacheable is rendered without anything of the visitor.
  rig.respond = (request) =>
    page(`for ${request.headers.get('x-user') ?? 'all'} in ${request.headers.get('accept-language')}`);
  assert.equal(
    await rig.text(cache, '/shared', { headers: { 'x-user': 'eve', 'accept-language': 'fr' } }),
    'for all in null',
  );
});

onStores('a 404 of a page that is not stored stays in memory, and leaves no rows and no body', async (rig) => {
  let ahead = 0;
  const clock = systemClock(() => Date.now() + ahead);
  const [a, b] = [rig.cache({ clock }), rig.cache({ clock })];
  rig.respond = (_, n) => page(`missing ${n}`, { 'cache-control': 'max-age=86400', 'cache-tag': 'news' }, 404);
  const first = await rig.get(a, '/invented');
  assert.deepEqual([first.status, await first.text()], [404, 'missing 1']);
  assert.equal(first.headers.get('cache-status'), 'isr; fwd=miss; detail=negative');
  const hit = await rig.get(a, '/invented');
  assert.match(hit.headers.get('cache-status') ?? '', /^isr; hit; ttl=\d+; detail=negative$/);
  assert.deepEqual([hit.status, await hit.text()], [404, 'missing 1']);
  const { Contents } = await rig.bucket.s3.send(new ListObjectsV2Command({ Bucket: rig.bucket.name }));
  assert.equal(Contents, undefined);
  assert.equal((await storeOn(rig.table).read({ cacheKey: `${host}/invented` })).entry, undefined);
  // A purge by another process, and time, end it; so does an unsafe request, which may have made the page.
  await b.purge([{ kind: 'tag', value: 'news' }], { hard: true });
  assert.equal(await rig.text(a, '/invented'), 'missing 2');
  ahead += 301_000;
  assert.equal(await rig.text(a, '/invented'), 'missing 3');
  await a.handle(new Request(`http://${host}/invented`, { method: 'PUT' }), () => new Response(null, { status: 201 }));
  assert.equal(await rig.text(a, '/invented'), 'missing 4');
  // A page that another process stores comes first, and its 404 replaces it for all.
  rig.respond = (_, n) => page(`page ${n}`);
  assert.equal(await rig.text(b, '/invented'), 'page 5');
  assert.equal(await rig.text(a, '/invented'), 'page 5');
  await b.purge([{ kind: 'key', value: `${host}/invented` }], { hard: true });
  rig.respond = (_, n) => page(`gone ${n}`, {}, 410);
  assert.deepEqual([await rig.text(a, '/invented'), await rig.text(b, '/invented')], ['gone 6', 'gone 6']);
});

onStores('a failed render leaves the page, and a page that becomes private is gone at once', async (rig) => {
  const [a, b] = [rig.cache({ staleSeconds: 3600 }), rig.cache({ staleSeconds: 3600 })];
  rig.respond = () => page('good', { 'cache-control': 'max-age=1' });
  await rig.text(a);
  rig.respond = () => page('broken', {}, 503);
  await until(
    'the page is stale',
    async () => (await rig.get(a)).headers.get('cache-status')?.includes('stale') ?? false,
  );
  await until('a render has failed', () => rig.warnings.includes('a render failed'));
  const renders = rig.renders.length;
  for (let i = 0; i < 10; i++) assert.equal(await rig.text(i % 2 ? a : b), 'good');
  await a.close();
  await b.close();
  assert.equal(rig.renders.length, renders, 'rendered during the back-off');
  // Errors without a stored page are passed on.
  assert.equal((await rig.get(a, '/none')).status, 503);
  rig.respond = () => {
    throw new Error('broken');
  };
  await assert.rejects(rig.get(a, '/throws'), /broken/);
  rig.respond = () => page('public', { 'cache-control': 'max-age=60' });
  assert.equal(await rig.text(a, '/secret'), 'public');
  assert.equal(await rig.text(b, '/secret'), 'public');
  await a.purge([{ kind: 'key', value: `${host}/secret` }]);
  rig.respond = () => page('private', { 'cache-control': 'private' });
  await until('it is private', async () => (await rig.text(b, '/secret')) === 'private');
  assert.equal(await rig.text(a, '/secret'), 'private');
});

onStores(
  'a page without a stale window is served while renders fail, after a soft purge, as long as it would be fresh',
  async (rig) => {
    let ahead = 0;
    const clock = systemClock(() => Date.now() + ahead);
    for (const [path, directives, options, after, want] of [
      ['/soft', 'max-age=600', {}, 0, 'good'],
      ['/shared', 's-maxage=600', {}, 0, 'good'],
      ['/hard', 'max-age=600', { hard: true }, 0, 'broken'],
      ['/forbidden', 'max-age=600, must-revalidate', {}, 0, 'broken'],
      ['/over', 'max-age=600', {}, 601_000, 'broken'],
      ['/longer', 'max-age=600, stale-if-error=600', {}, 601_000, 'good'],
    ] as const) {
      const [a, b] = [rig.cache({ clock }), rig.cache({ clock })];
      rig.respond = () => page('good', { 'cache-control': directives });
      assert.equal(await rig.text(a, path), 'good');
      await a.purge([{ kind: 'key', value: `${host}${path}` }], options);
      ahead += after;
      rig.respond = () => page('broken', {}, 503);
      // In the process that renders, and in another one during the back-off.
      assert.deepEqual([await rig.text(a, path), await rig.text(b, path)], [want, want], path);
    }
  },
);

onStores('an error page for one visitor is sent to no other visitor', async (rig) => {
  const cache = rig.cache({ trustSeconds: 60 }); // second visitors look in memory
  for (const [path, personal] of [
    ['/cookie', { 'set-cookie': 'sid=secret; HttpOnly' }],
    ['/private', { 'cache-control': 'private' }],
    ['/malformed', { 'cache-control': 'max-age=60, ext="private' }],
  ] as const) {
    let open = () => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    rig.respond = async (_, n) => {
      await gate;
      return page(`secret ${n}`, { 'cache-control': 'max-age=60', ...personal }, 500);
    };
    const first = rig.get(cache, path);
    await until('the render has begun', () => rig.renders.at(-1)?.url.endsWith(path) ?? false);
    const waiting = Array.from({ length: 8 }, () => rig.get(cache, path));
    await new Promise((resolve) => setImmediate(resolve));
    open();
    const answers = await Promise.all([first, ...waiting]);
    const secrets: string[] = [];
    for (const answer of answers) {
      assert.equal(answer.status, 500, path);
      const text = await answer.text();
      if (text.startsWith('secret')) secrets.push(text);
      else assert.equal(answer.headers.get('set-cookie'), null, path);
    }
    assert.match(secrets[0] ?? '', /^secret/, path);
    assert.equal(new Set(secrets).size, secrets.length, `${path}: ${secrets.join(', ')}`);
  }
});

onStores('a redirect to the page itself is neither stored nor sent to a visitor of another spelling', async (rig) => {
  const cache = rig.cache({ query: ['a', 'b'] });
  const wanted = 'http://example.com/p?b=2&a=1';
  rig.respond = ({ url }) => {
    if (url === wanted) return page('page');
    return page('', { location: wanted, 'cache-control': 'max-age=60' }, 301);
  };
  for (let i = 0; i < 3; i++) {
    assert.equal(await rig.text(cache, '/p?b=2&a=1'), 'page');
    const other = await rig.get(cache, '/p?a=1&b=2');
    assert.deepEqual([other.status, other.headers.get('location')], [301, wanted]);
    assert.doesNotMatch(other.headers.get('cache-status') ?? '', /hit|stored/);
  }
});

onStores('large bodies and streams reach the visitor complete, and are not stored', async (rig) => {
  const cache = rig.cache({ maxBodyBytes: 1000 });
  const large = 'x'.repeat(300_000);
  rig.respond = () => new Response(new Blob([large]).stream(), { headers: { 'cache-control': 'max-age=60' } });
  for (let i = 1; i <= 2; i++) {
    assert.equal(await rig.text(cache, '/large'), large);
    assert.equal(rig.renders.length, i);
  }
});

onStores('a process that dies delays a page for its lease', async (rig) => {
  await storeOn(rig.table).acquireLease({ cacheKey: `${host}/`, leaseDurationMs: 1000 }); // and is never heard of again
  assert.equal(await rig.text(rig.cache()), 'page 1');
  assert.equal(await rig.text(rig.cache()), 'page 1');
});

onStores('pages seen before are served from memory in an outage, unless this process has purged them', async (rig) => {
  const ddb = rig.table.connect({ maxAttempts: 1 });
  const way = wayTo(ddb);
  const [cache, other] = [rig.cache({ ddb, outageSeconds: 60 }), rig.cache()];
  assert.equal(await rig.text(cache, '/own'), 'page 1');
  assert.equal(await rig.text(other, '/others'), 'page 2');
  assert.equal(await rig.text(cache, '/others'), 'page 2');
  way.fail();
  for (let i = 0; i < 3; i++) {
    const answer = await rig.get(cache, '/own');
    assert.match(answer.headers.get('cache-status') ?? '', /hit; .*detail=stale/);
    assert.equal(await answer.text(), 'page 1');
    assert.equal(await rig.text(cache, '/others'), 'page 2');
  }
  assert.equal(await rig.text(cache, '/unseen'), 'page 3');
  await cache.invalidate({ method: 'POST', url: `http://${host}/own` }, new Response());
  assert.equal(await rig.text(cache, '/own'), 'page 4');
  await assert.rejects(cache.purge([{ kind: 'key', value: `${host}/others` }], { signal: AbortSignal.timeout(1000) }));
  assert.equal(await rig.text(cache, '/others'), 'page 5');
  way.open();
});

onStores('pages are rendered while the table is out of reach, and when a body is lost', async (rig) => {
  const dead = rig.cache({
    ddb: rig.table.connect({ endpoint: 'http://127.0.0.1:1', maxAttempts: 1 }),
    callSeconds: 0.5,
    outageSeconds: 60,
  });
  for (let i = 1; i <= 3; i++) assert.equal(await rig.text(dead), `page ${i}`);
  assert.ok(rig.warnings.includes('a look-up failed'));
  const [a, b] = [rig.cache(), rig.cache()];
  await rig.text(a);
  const { Contents = [] } = await rig.bucket.s3.send(new ListObjectsV2Command({ Bucket: rig.bucket.name }));
  const Objects = Contents.map(({ Key }) => ({ Key }));
  await rig.bucket.s3.send(new DeleteObjectsCommand({ Bucket: rig.bucket.name, Delete: { Objects } }));
  const renders = rig.renders.length;
  await rig.text(b);
  assert.equal(rig.renders.length, renders + 1);
});

onStores('a page whose stale-if-error has not ended stands in for failures', async (rig) => {
  let ahead = 0;
  const clock = systemClock(() => Date.now() + ahead);
  const cache = rig.cache({ clock });
  rig.respond = (_, n) =>
    n > 1
      ? new Response('broken', { status: 500 })
      : page('page', { 'cache-control': 'max-age=60, stale-if-error=600' });
  await rig.text(cache);
  ahead = 300_000;
  const stale = await rig.get(cache);
  assert.deepEqual([stale.status, await stale.text()], [200, 'page']);
  ahead = 700_000;
  assert.equal((await rig.get(rig.cache({ clock }))).status, 500);
});

onStores('a stored page has the fields, the validator and the age of its response', async (rig) => {
  const name = Buffer.from('inline; filename="é.html"').toString('latin1'); // as UTF-8 comes from a connection
  rig.respond = () =>
    page('page', {
      'content-disposition': name,
      etag: 'W/"é"'.replace('é', Buffer.from('é').toString('latin1')),
      age: '10, 20',
      'cache-status': 'b; hit',
      'server-timing': 'a;dur=1',
      connection: 'x-hop',
      'x-hop': '1',
    });
  for (const detail of ['fwd=miss; stored', 'hit; ttl=']) {
    const { headers } = await rig.get(rig.cache());
    assert.equal(headers.get('content-disposition'), name);
    assert.equal(headers.get('etag'), 'W/"Ã©"');
    assert.ok(Number(headers.get('age')) >= 10);
    assert.ok(headers.get('cache-status')?.startsWith(`b; hit, isr; ${detail}`), headers.get('cache-status') ?? '');
    assert.deepEqual([headers.has('server-timing'), headers.has('x-hop')], [false, false]);
  }
  const { entry } = await storeOn(rig.table).read({ cacheKey: `${host}/` });
  assert.deepEqual(entry?.headers['content-disposition'], ['inline; filename="é.html"']);
  assert.deepEqual([entry?.etag, entry?.revalidateSeconds, entry?.initialAgeSeconds], ['W/"é"', 50, 10]);
});

onStores('what the bounds of a cache, and no content, refuse', async (rig) => {
  for (const [reason, options, response] of [
    ['empty', {}, () => page('')],
    ['no-freshness', { optIn: 'strict' }, () => page('a')],
    ['tags', { maxTags: 2 }, () => page('a', { 'cache-tag': 'a,b,c' })],
    ['header-too-large', { maxHeaderBytes: 1024 }, () => page('a', { 'x-long': 'x'.repeat(1024) })],
  ] as const) {
    rig.respond = response;
    const refused = await rig.get(rig.cache(options), `/${reason}`);
    assert.match(refused.headers.get('cache-status') ?? '', new RegExp(`detail=${reason}$`));
    if (reason === 'empty') continue;
    const stored = await rig.get(rig.cache(), `/${reason}/default`);
    assert.match(stored.headers.get('cache-status') ?? '', /stored$/, reason);
  }
  assert.throws(
    () => rig.cache({ optIn: 'never' as 'strict' }),
    /optIn must be 'explicit' or 'strict' \(got "never"\)/,
  );
  assert.throws(() => rig.cache({ maxTags: 0 }), /maxTags must be a whole number from 1 to 2048/);
});
