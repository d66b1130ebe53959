/** Responses that are not stored, and the visitors who get them: streams, partial bodies, and visitors who need another response. */

import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Bodies } from '../../src/cache/bodies.js';
import {
  createPageCache,
  nodeHandler,
  type PageCache,
  type PageCacheOptions,
  type Render,
} from '../../src/web/node.js';
import { onEngines, type TestTable } from '../engines.js';
import { generation, storeOn } from '../isr/table.js';
import { until } from '../next/servers.js';
import { newBucket, noBucket, type TestBucket } from '../next/stores.js';

interface Stores {
  table: TestTable;
  bucket: TestBucket;
  cache(options?: Partial<PageCacheOptions>): PageCache;
}

function onStores(name: string, body: (stores: Stores, t: TestContext) => Promise<void>): void {
  onEngines(name, async (table, t) => {
    if (noBucket) {
      t.skip(noBucket);
      return;
    }
    const bucket = await newBucket(t);
    const cache = (options: Partial<PageCacheOptions> = {}) => {
      const made = createPageCache({
        ...{ hosts: ['example.com'], tableName: table.tableName, bucket: bucket.name, ddb: table.ddb, s3: bucket.s3 },
        ...{ trustSeconds: 0, callSeconds: 30, waitSeconds: 60, warn: () => undefined, ...options },
      });
      t.after(() => made.close());
      return made;
    };
    await body({ table, bucket, cache }, t);
  });
}

function get(cache: PageCache, render: Render, path: string, init: RequestInit = {}): Promise<Response> {
  return cache.handle(new Request(`http://example.com${path}`, init), render);
}

/** A body without an end, which notes when its reader has stopped. */
function endless(first: string): { stream: ReadableStream<Uint8Array>; hasEnded: () => boolean } {
  let ended = false;
  const stream = new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(Buffer.from(first)),
      cancel: () => {
        ended = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, hasEnded: () => ended };
}

const shared = { 'cache-control': 'max-age=60' };

onStores('a stream reaches its visitor as it comes, for as long as it lasts', async ({ cache }) => {
  const impatient = cache({ renderSeconds: 1 });
  for (const [path, headers] of [
    ['/events', { ...shared, 'content-type': 'text/event-stream' }],
    ['/private', { 'cache-control': 'no-store' }],
  ] as const) {
    for (let i = 0; i < 2; i++) {
      const { stream, hasEnded } = endless('first');
      const response = await get(impatient, () => new Response(stream, { headers }), path);
      const reader = response.body?.getReader();
      assert.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), 'first');
      const later = reader?.read();
      assert.equal(await Promise.race([later, pause(1500, 'open')]), 'open'); // longer than a render may take
      await reader?.cancel();
      await later?.catch(() => undefined);
      await until('the stream has ended', hasEnded);
    }
  }
});

onStores('a large body is not cut off when a render would have timed out', async ({ cache }) => {
  const impatient = cache({ renderSeconds: 1, maxBodyBytes: 1000 });
  const seen: AbortSignal[] = [];
  const render: Render = ({ signal }) => {
    seen.push(signal);
    let n = 0;
    const stream = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          if (n === 2) await pause(1500);
          signal.throwIfAborted();
          if (n++ === 4) controller.close();
          else controller.enqueue(Buffer.alloc(1000));
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(stream, { headers: shared });
  };
  assert.equal((await (await get(impatient, render, '/large')).arrayBuffer()).byteLength, 4000);
  assert.equal(seen.length, 1);
});

onStores('a body that no visitor reads is canceled', async ({ cache }, t) => {
  for (const [what, init, headers] of [
    ['HEAD', { method: 'HEAD' }, { 'cache-control': 'no-store' }],
    ['unchanged', { headers: { 'if-none-match': '"a"' } }, { 'cache-control': 'no-store', etag: '"a"' }],
    ['another language', { headers: { 'accept-language': 'fr' } }, { ...shared, vary: 'Accept-Language' }],
  ] as const) {
    const { stream, hasEnded } = endless('first');
    let renders = 0;
    const render = () => new Response(renders++ === 0 ? stream : 'own', { headers });
    await (await get(cache(), render, `/${what.replace(' ', '')}`, init)).text();
    await until(`${what}: canceled`, hasEnded);
  }
  // In the background, and if the stale page is served instead.
  for (const status of [200, 503]) {
    const stale = cache({ staleSeconds: 3600 });
    const { stream, hasEnded } = endless('x'.repeat(100));
    const path = `/stale-${status}`;
    await (await get(stale, () => new Response('page', { headers: { 'cache-control': 'max-age=1' } }), path)).text();
    let renders = 0;
    const headers = { 'cache-control': 'no-cache' };
    const render = () => (renders++ === 0 ? new Response(stream, { status, headers }) : new Response('', { headers }));
    await until('the render is canceled', async () => {
      await (await get(stale, render, path)).text();
      return hasEnded();
    });
  }
  // The same with an application of node:http, whose response would never end.
  let closed = 0;
  const app: RequestListener = (_, res) => {
    res.on('close', () => closed++).writeHead(200, { 'cache-control': 'no-store' });
    res.write(Buffer.alloc(1 << 20));
  };
  const server = createServer(nodeHandler(cache({ hosts: ['127.0.0.1'] }), app));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  for (const [i, request] of ['HEAD /a', 'GET /b'].entries()) {
    const socket = connect(port, '127.0.0.1', () => socket.write(`${request} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`));
    await new Promise<void>((resolve) => socket.once('data', () => resolve()));
    socket.destroy();
    await until(`${request}: the response of the application is closed`, () => closed === i + 1);
  }
});

onStores(
  'a visitor gets no response that depends on a header which the render did not have',
  async ({ cache, table, bucket }) => {
    const render: Render = ({ headers }) => {
      const language = headers.get('accept-language') ?? 'none';
      return new Response(language, { headers: { ...shared, vary: 'Accept-Encoding, Accept-Language' } });
    };
    for (const language of ['fr', 'de']) {
      const response = await get(cache(), render, `/first-${language}`, { headers: { 'accept-language': language } });
      assert.equal(await response.text(), language);
    }
    assert.equal(await (await get(cache(), render, '/none')).text(), 'none');
    // A page of isr serve with learned Vary, stored for requests without the header.
    const described = await new Bodies(bucket.s3, bucket.name).put('bodies/1', Buffer.from('none'));
    const store = storeOn(table);
    const lease = await store.acquireLease({ cacheKey: 'example.com/learned', leaseDurationMs: 10_000 });
    const stored = { ...generation('g1', Date.now()), ...described };
    await store.publish(lease, lease.record, { ...stored, headers: { vary: ['Accept-Language'] } });
    const hit = await get(cache(), render, '/learned');
    assert.match(hit.headers.get('cache-status') ?? '', /hit/);
    const own = await get(cache(), render, '/learned', { headers: { 'accept-language': 'fr' } });
    assert.deepEqual([await own.text(), own.headers.get('cache-status')], ['fr', 'isr; fwd=bypass; detail=vary']);
  },
);

onStores('a body of another length than its Content-Length is a failed render', async ({ cache }) => {
  const pages = cache({ staleSeconds: 3600 });
  const render = () => new Response('half', { headers: { ...shared, 'content-length': '8' } });
  await assert.rejects(get(pages, render, '/short'), /4 bytes.*Content-Length.*8/);
  const whole = () => new Response('complete', { headers: { ...shared, 'content-length': '8' } });
  assert.equal(await (await get(cache(), whole, '/whole')).text(), 'complete');
});
