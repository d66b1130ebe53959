import assert from 'node:assert/strict';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type TestContext, test } from 'node:test';

import { delayResponse } from '../../src/web/delay.js';
import { until } from '../next/servers.js';

const large = 'x'.repeat(3_000_000);

/** How applications respond, with the body that their visitors get. */
const responses: [name: string, answer: (res: ServerResponse) => unknown, body: string, length: string | null][] = [
  ['a header in writeHead', (res) => res.writeHead(201, { Location: '/new' }).end('body'), 'body', null],
  ['a reason', (res) => res.writeHead(201, 'Made', { location: '/new' }).end('body'), 'body', null],
  ['a list', (res) => res.writeHead(201, ['Location', '/new', 'X-Other', '1']).end('body'), 'body', null],
  [
    'writeHead replaces a header',
    (res) => res.setHeader('location', '/old').writeHead(201, { location: '/new' }).end('body'),
    'body',
    null,
  ],
  [
    'end alone',
    (res) => {
      res.statusCode = 201;
      res.setHeader('Location', '/new').end('body');
    },
    'body',
    '4',
  ],
  [
    'parts',
    (res) => {
      res.statusCode = 201;
      res.setHeader('location', '/new').flushHeaders();
      res.write('bo', () => res.end('dy'));
    },
    'body',
    null,
  ],
  [
    'a stream',
    (res) => {
      res.writeHead(201, { location: '/new' });
      return pipeline(Readable.from(large.match(/.{1,100000}/g) ?? []), res);
    },
    large,
    null,
  ],
];

async function listening(t: TestContext, app: RequestListener): Promise<string> {
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

for (const [name, answer, body, length] of responses) {
  test(`a response is sent complete once the work has ended: ${name}`, async (t) => {
    const seen: unknown[] = [];
    let finish = () => {};
    const work = new Promise<void>((resolve) => (finish = resolve));
    const url = await listening(t, (_, res) => {
      delayResponse(res, ['location', 'content-location'], (status, headers) => {
        seen.push(status, [...headers]);
        return work;
      });
      answer(res);
    });
    let hasCome = false;
    const response = fetch(url, { headers: { connection: 'close' } }).finally(() => (hasCome = true));
    await until('the work has begun', () => seen.length > 0);
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(hasCome, false);
    finish();
    const { status, headers } = await response;
    assert.deepEqual(seen, [201, [['location', '/new']]]);
    assert.deepEqual([status, headers.get('location'), headers.get('content-length')], [201, '/new', length]);
    assert.equal(await (await response).text(), body);
  });
}

test('a visitor who leaves ends the response', async (t) => {
  let finish = () => {};
  const work = new Promise<void>((resolve) => (finish = resolve));
  const closed = new Promise<void>((resolve) => {
    listening(t, (_, res) => {
      delayResponse(res, [], () => work);
      res.on('close', resolve).end('body');
      controller.abort();
    }).then((url) => fetch(url, { signal: controller.signal }).catch(() => undefined));
  });
  const controller = new AbortController();
  await closed;
  finish();
  await work;
});
