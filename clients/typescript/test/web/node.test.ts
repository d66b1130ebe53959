/** The page cache in front of real servers, and beside `isr serve` on the same table. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from 'node:http';
import { createServer as createSecureServer, get as secureGet } from 'node:https';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { UpdateTimeToLiveCommand } from '@aws-sdk/client-dynamodb';
import { serve } from '@hono/node-server';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';

import { createPageCache, nodeHandler, type PageCache, type PageCacheOptions } from '../../src/web/node.js';
import { onEngines, type TestTable } from '../engines.js';
import { freePort, until } from '../next/servers.js';
import { newBucket, noBucket, type TestBucket } from '../next/stores.js';

interface Site {
  url: string;
  cache: PageCache;
}

/** The response of every application: a page for all at /page, one for each visitor at /account. */
function content(
  path: string,
  cookie: string | undefined,
  n: number,
): { text: string; headers: Record<string, string> } {
  if (path === '/account') return { text: `for ${cookie ?? 'anonymous'}`, headers: { 'cache-control': 'private' } };
  return { text: `${path} ${n}`, headers: { 'cache-control': 'max-age=60', 'cache-tag': 'pages' } };
}

function cacheOn(
  table: TestTable,
  bucket: TestBucket,
  options: Partial<PageCacheOptions> & Pick<PageCacheOptions, 'hosts'>,
): PageCache {
  return createPageCache({
    tableName: table.tableName,
    bucket: bucket.name,
    ddb: table.ddb,
    s3: bucket.s3,
    trustSeconds: 0,
    callSeconds: 30,
    ...options,
  });
}

/** Starts an application on a free port; `start` gets its cache. */
async function siteOn(
  t: TestContext,
  table: TestTable,
  bucket: TestBucket,
  start: (cache: PageCache, port: number) => Promise<Pick<Server, 'close'>>,
  options: Partial<PageCacheOptions> = {},
): Promise<Site> {
  const port = await freePort();
  const cache = cacheOn(table, bucket, { hosts: [`127.0.0.1:${port}`, 'example.com'], ...options });
  const server = await start(cache, port);
  t.after(async () => {
    await new Promise((resolve) => server.close(resolve));
    await cache.close();
  });
  return { url: `http://127.0.0.1:${port}`, cache };
}

function listening(handler: RequestListener, port: number): Promise<Server> {
  const server = createServer(handler);
  return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(server)));
}

/** What every application answers to a POST: it has changed /page. */
const changed = { status: 303, headers: { location: '/page' } };

/** Each framework as its users run it. */
const frameworks: Record<string, (cache: PageCache, port: number) => Promise<Pick<Server, 'close'>>> = {
  async 'node:http'(cache, port) {
    let n = 0;
    const app: RequestListener = (req, res) => {
      if (req.method === 'POST') return void res.writeHead(changed.status, changed.headers).end();
      const { text, headers } = content(req.url ?? '', req.headers.cookie, ++n);
      res.writeHead(200, headers).end(text);
    };
    return listening(nodeHandler(cache, app), port);
  },
  async Express(cache, port) {
    let n = 0;
    const app = express();
    app.use(express.text());
    app.post('/echo', (req, res) => void res.send(`echo ${req.body}`));
    app.post('/form', (_, res) => void res.redirect(changed.status, changed.headers.location));
    app.use((req, res) => {
      const { text, headers } = content(req.originalUrl, req.headers.cookie, ++n);
      res.set(headers).send(text);
    });
    return listening(nodeHandler(cache, app), port);
  },
  async Fastify(cache, port) {
    let n = 0;
    const app = Fastify({
      forceCloseConnections: true,
      serverFactory: (handler) => createServer(nodeHandler(cache, handler)),
    });
    app.post('/form', (_, reply) => reply.redirect(changed.headers.location, changed.status));
    app.get('*', (req, reply) => {
      const { text, headers } = content(req.url, req.headers.cookie, ++n);
      return reply.headers(headers).send(text);
    });
    await app.listen({ port, host: '127.0.0.1' });
    return {
      close(done?: (error?: Error) => void) {
        app.close().then(() => done?.());
        return app.server;
      },
    };
  },
  async Hono(cache, port) {
    let n = 0;
    const app = new Hono();
    app.post('/form', (c) => c.redirect(changed.headers.location, 303));
    app.get('*', (c) => {
      const { text, headers } = content(new URL(c.req.url).pathname, c.req.header('cookie'), ++n);
      return c.body(text, 200, headers);
    });
    return serve({ fetch: cache.wrap(app.fetch), port, hostname: '127.0.0.1' }) as Server;
  },
};

for (const [name, start] of Object.entries(frameworks)) {
  onEngines(`${name}: shared pages are cached, personal pages are not`, async (table, t) => {
    if (noBucket) {
      t.skip(noBucket);
      return;
    }
    const bucket = await newBucket(t);
    const { url, cache } = await siteOn(t, table, bucket, start);
    const get = async (path: string, headers: Record<string, string> = {}) => {
      const response = await fetch(url + path, { headers: { connection: 'close', ...headers } });
      return { text: await response.text(), status: response.headers.get('cache-status') ?? '' };
    };
    assert.match((await get('/page')).status, /^isr; fwd=miss; stored/);
    assert.deepEqual([(await get('/page')).text, (await get('/page')).text], ['/page 1', '/page 1']);
    for (const user of ['session=a', 'session=b']) {
      const { text, status } = await get('/account', { cookie: user });
      assert.deepEqual([text, status], [`for ${user}`, 'isr; fwd=bypass; detail=cookie']);
    }
    assert.equal((await get('/account')).text, 'for anonymous');
    assert.equal((await get('/account')).status, 'isr; fwd=bypass; detail=uncacheable');
    await cache.purge([{ kind: 'tag', value: 'pages' }], { hard: true });
    assert.notEqual((await get('/page')).text, '/page 1');
    // Another process sees the change of a form as soon as its visitor has the answer.
    const other = cacheOn(table, bucket, { hosts: [new URL(url).host] });
    const elsewhere = async () => {
      const render = () => new Response('new', { headers: { 'cache-control': 'max-age=60' } });
      return (await other.handle(new Request(`${url}/page`), render)).text();
    };
    assert.equal(await elsewhere(), (await get('/page')).text);
    const form = await fetch(`${url}/form`, { method: 'POST', redirect: 'manual' });
    assert.deepEqual([form.status, form.headers.get('cache-status')], [303, 'isr; fwd=method']);
    assert.equal(await elsewhere(), 'new');
    assert.equal((await get('/page')).text, 'new');
    // A path that begins with // is no host.
    assert.match((await get('//evil.test/x')).text, /^\/\/evil\.test\/x \d+$/);
  });
}

onEngines(
  'requests with bodies, and pages that the application breaks off, reach the application',
  async (table, t) => {
    if (noBucket) {
      t.skip(noBucket);
      return;
    }
    const bucket = await newBucket(t);
    const { url } = await siteOn(t, table, bucket, frameworks['Express'] as never);
    const echo = await fetch(`${url}/echo`, {
      method: 'POST',
      body: 'hello',
      headers: { 'content-type': 'text/plain' },
    });
    assert.deepEqual([await echo.text(), echo.headers.get('cache-status')], ['echo hello', 'isr; fwd=method']);
    // A GET with a body, one without a valid Host, and one in absolute form.
    for (const [target, field, body, reason] of [
      ['/page', 'Host: 127.0.0.1\r\nContent-Length: 2', 'hi', 'fwd=bypass; detail=body'],
      ['/page', 'Host: a b', '', 'fwd=bypass; detail=host'],
      [`${url}/page`, 'Host: a', '', 'fwd=bypass; detail=host'],
    ] as const) {
      const answer = await raw(
        Number(new URL(url).port),
        `GET ${target} HTTP/1.1\r\n${field}\r\nConnection: close\r\n\r\n${body}`,
      );
      assert.match(answer, /^HTTP\/1\.1 200 /);
      assert.ok(answer.includes(`isr; ${reason}\r\n`), answer);
    }
    const broken = await siteOn(t, table, bucket, (cache, at) =>
      listening(
        nodeHandler(cache, (_, res) => void res.destroy()),
        at,
      ),
    );
    const failed = await fetch(`${broken.url}/page`, { headers: { connection: 'close' } });
    assert.equal(failed.status, 500);
  },
);

function raw(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let got = '';
    const socket: Socket = connect(port, '127.0.0.1', () => socket.write(text));
    socket
      .on('data', (chunk) => (got += chunk))
      .on('end', () => resolve(got))
      .on('error', reject);
  });
}

/** Applications that name their scheme, and redirect to https as their users write that, by path. */
const schemes: Record<string, (cache: PageCache, port: number) => Promise<Pick<Server, 'close'>>> = {
  async 'node:http'(cache, port) {
    const app: RequestListener = (req, res) => {
      const isSecure = req.headers['x-forwarded-proto'] === 'https';
      res.setHeader('cache-control', 'max-age=60');
      if (isSecure) res.end('https');
      else res.writeHead(301, { location: `https://example.com${req.url}` }).end();
    };
    return listening(nodeHandler(cache, app), port);
  },
  async Express(cache, port) {
    const app = express();
    app.use((req, res) => {
      res.set('cache-control', 'max-age=60');
      if (req.secure) res.send(req.protocol);
      else res.redirect(301, `https://example.com${req.originalUrl}`);
    });
    return listening(nodeHandler(cache, app), port);
  },
  async 'Express behind a proxy'(cache, port) {
    const app = express().set('trust proxy', true);
    app.use((req, res) => void res.set('cache-control', 'max-age=60').send(req.protocol));
    return listening(nodeHandler(cache, app), port);
  },
  async Hono(cache, port) {
    const app = new Hono();
    app.get('*', (c) => c.body(new URL(c.req.url).protocol.slice(0, -1), 200, { 'cache-control': 'max-age=60' }));
    return serve({ fetch: cache.wrap(app.fetch), port, hostname: '127.0.0.1' }) as Server;
  },
};

for (const [name, start] of Object.entries(schemes)) {
  onEngines(`${name} behind a proxy that terminates TLS renders pages of https`, async (table, t) => {
    if (noBucket) {
      t.skip(noBucket);
      return;
    }
    const { url } = await siteOn(t, table, await newBucket(t), start, { scheme: 'https' });
    for (const proto of ['https', 'http', undefined]) {
      const headers = { connection: 'close', ...(proto ? { 'x-forwarded-proto': proto } : {}) };
      const response = await fetch(`${url}/page`, { headers, redirect: 'manual' });
      assert.equal(await response.text(), 'https', proto);
      assert.match(response.headers.get('cache-status') ?? '', proto === 'https' ? /stored/ : /hit/);
    }
  });
}

onEngines('a server of node:https renders pages of https without an option', async (table, t) => {
  if (noBucket) {
    t.skip(noBucket);
    return;
  }
  const app = express();
  app.use((req, res) => void res.set('cache-control', 'max-age=60').send(`${req.protocol} ${req.originalUrl}`));
  const key = { psk: randomBytes(32), identity: 'test' }; // TLS without a certificate
  const tls = { ciphers: 'PSK', maxVersion: 'TLSv1.2' } as const;
  const { url } = await siteOn(t, table, await newBucket(t), (cache, port) => {
    const server = createSecureServer({ ...tls, pskCallback: () => key.psk }, nodeHandler(cache, app));
    return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(server)));
  });
  for (const status of [/stored/, /hit/]) {
    const { text, headers } = await new Promise<{ text: string; headers: IncomingHttpHeaders }>((resolve, reject) => {
      const client = { ...tls, agent: false, pskCallback: () => key, checkServerIdentity: () => undefined } as const;
      secureGet(`${url.replace('http:', 'https:')}/page`, client, async (answer) => {
        let text = '';
        for await (const chunk of answer) text += chunk;
        resolve({ text, headers: answer.headers });
      }).on('error', reject);
    });
    assert.equal(text, 'https /page');
    assert.match(String(headers['cache-status']), status);
  }
});

onEngines('isr serve and the cache serve each other’s pages', async (table, t) => {
  const isr = process.env['ISR_TEST_ISR'];
  if (noBucket || !isr) {
    t.skip(noBucket ?? 'ISR_TEST_ISR names no binary of isr; ./test sets it');
    return;
  }
  const bucket = await newBucket(t);
  const TimeToLiveSpecification = { AttributeName: 'ttl', Enabled: true };
  await table.ddb.send(new UpdateTimeToLiveCommand({ TableName: table.tableName, TimeToLiveSpecification }));
  const { url, cache } = await siteOn(t, table, bucket, frameworks['node:http'] as never);
  const folder = await mkdtemp(join(tmpdir(), 'isr-'));
  t.after(() => rm(folder, { recursive: true }));
  const port = await freePort();
  const child = spawn(
    isr,
    [
      ...['serve', '--listen', `127.0.0.1:${port}`, '--origin', url, '--host', 'example.com', '--host', '127.0.0.1'],
      ...['--table', table.tableName, '--dynamodb-endpoint', table.engine.endpoint],
      ...['--bucket', bucket.name, '--s3-endpoint', bucket.endpoint, '--poll', '100ms', '--store-timeout', '20s'],
    ],
    {
      cwd: folder,
      env: {
        PATH: process.env['PATH'],
        HOME: '/nonexistent',
        AWS_REGION: 'us-east-1',
        AWS_ACCESS_KEY_ID: bucket.accessKeyId,
        AWS_SECRET_ACCESS_KEY: bucket.secretAccessKey,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (log += chunk));
  t.after(() => child.kill('SIGKILL'));
  await until('isr serves', () => {
    assert.equal(child.exitCode, null, log);
    return log.includes('serving http');
  });
  const through = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } });
    return { text: await response.text(), status: response.headers.get('cache-status') ?? '' };
  };
  const own = `127.0.0.1:${port}`;
  const render = () =>
    new Response('made here', { headers: { 'cache-control': 'max-age=60', 'content-type': 'text/html' } });
  const gateway = cacheOn(table, bucket, { hosts: [own] });
  // A page of the cache is a hit of isr serve.
  assert.equal(await (await gateway.handle(new Request(`http://${own}/mine`), render)).text(), 'made here');
  const seen = await through('/mine');
  assert.equal(seen.text, 'made here', log);
  assert.match(seen.status, /hit/);
  // A page of isr serve is a hit of the cache, until the cache purges it for both.
  const rendered = await through('/theirs');
  assert.match(rendered.text, /^\/theirs/, log);
  const hit = await gateway.handle(new Request(`http://${own}/theirs`), () => assert.fail('rendered'));
  assert.equal(await hit.text(), rendered.text);
  await gateway.purge([{ kind: 'prefix', value: `${own}/` }], { hard: true });
  await until('isr serve renders the page again', async () => (await through('/theirs')).text !== rendered.text);
  await cache.close();
});
