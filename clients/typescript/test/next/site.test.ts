import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { before, type TestContext, test } from 'node:test';
import { DeleteObjectsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';

import { engines, newTable, noEngine, type TestTable } from '../engines.js';
import {
  askToRevalidate,
  buildSite,
  type Fleet,
  newFleet,
  noNext,
  runBuild,
  type Server,
  until,
  visit,
} from './servers.js';
import { newBucket, noBucket, type TestBucket } from './stores.js';

const missing = noNext ?? noBucket ?? (engines().length === 0 ? noEngine : undefined);

before(() => {
  if (!missing) buildSite();
});

test('a build with the handler in cacheHandlers, the plural, fails at once and says why', {
  skip: noNext ?? false,
}, () => {
  const { status, output } = runBuild({ SITE_PLURAL: '1' });
  assert.equal(status, 1, output);
  assert.match(output, /set cacheHandler, in the singular/);
  assert.doesNotMatch(output, /because it took more than/);
});

/** Two servers of one site. */
function onTwo(name: string, body: (two: [Server, Server], fleet: Fleet, t: TestContext) => Promise<void>): void {
  onFleet(name, async (fleet, t) => body([await fleet.start(), await fleet.start()], fleet, t));
}

let turn = 0;

/**
 * Defines a test on the engines in turn, so that one test sees one of them: what a fleet
 * makes of Next is the same on all, and each test of the handler runs on every engine.
 */
function onFleet(
  name: string,
  body: (fleet: Fleet, t: TestContext, table: TestTable, bucket: TestBucket) => Promise<void>,
): void {
  const engine = engines()[turn++ % engines().length];
  if (missing || !engine) {
    test(name, { skip: missing ?? noEngine });
    return;
  }
  test(`${name} (${engine.name})`, { timeout: 120_000 }, async (t) => {
    const table = await newTable(t, engine);
    const bucket = await newBucket(t);
    await body(await newFleet(t, table, bucket), t, table, bucket);
  });
}

onTwo('many visitors of a page that nobody has made yet: it is made once', async (two, fleet) => {
  const seen = await Promise.all(Array.from({ length: 40 }, (_, i) => visit(two[i % 2] as Server, '/listed/cold')));
  assert.deepEqual(new Set(seen.map((s) => s.status)), new Set([200]));
  assert.equal(new Set(seen.map((s) => s.at)).size, 1);
  assert.equal((await fleet.made('listed/cold')).length, 1);
});

onTwo('many visitors of both servers over several expiries: one rendering for each', async (two, fleet) => {
  const seen = new Set<string>();
  const visitor = async (server: Server) => {
    while ((await fleet.made('timed/busy')).length < 4) seen.add((await visit(server, '/timed/busy')).at);
  };
  await Promise.all([...two, ...two, ...two, ...two].map(visitor));
  const times = [...seen].map(Number).sort();
  assert.ok(times.length >= 3, `saw ${times}`);
  for (const [i, time] of times.entries()) {
    // Windows are three seconds, counted from the second in which the rendering began.
    const earlier = times[i - 1] ?? 0;
    assert.ok(time - earlier >= 2000, `two renderings within ${time - earlier} ms: ${times}`);
  }
  // The last one may not have been seen.
  assert.ok((await fleet.made('timed/busy')).length - times.length <= 1, 'a rendering was thrown away');
});

onTwo('while a stale page is made anew, both servers show it', async (two, fleet) => {
  const [a, b] = two;
  const first = await visit(a, '/timed/slow');
  await fleet.gate(true);
  await until('the page is made anew', async () => {
    for (const server of two) assert.equal((await visit(server, '/timed/slow')).at, first.at);
    return (await fleet.made('timed/slow')).length === 2;
  });
  for (let i = 0; i < 10; i++) {
    const seen = await Promise.all([visit(a, '/timed/slow'), visit(b, '/timed/slow')]);
    assert.deepEqual(new Set(seen.map((s) => s.at)), new Set([first.at]));
    assert.match(seen[1].headers.get('cache-control') ?? '', /s-maxage=1,/, 'a CDN must not keep what is stale');
  }
  assert.equal((await fleet.made('timed/slow')).length, 2);
  await fleet.gate(false);
  await until('the new page is seen by both', async () => {
    const seen = await Promise.all([visit(a, '/timed/slow'), visit(b, '/timed/slow')]);
    return seen.every((s) => s.at !== first.at);
  });
});

onTwo('revalidatePath of one server is seen by the other, at once', async ([a, b], fleet) => {
  for (const path of ['/listed/path', '/answers/path', '/']) {
    const before = await visit(a, path);
    assert.deepEqual((await visit(b, path)).bytes, before.bytes);
    const made = (await fleet.made()).length;
    await fleet.revalidate(a, { path });
    await visit(b, path);
    await visit(a, path);
    assert.equal((await fleet.made()).length, made + 1, path);
  }
});

onTwo('revalidateTag of a fetch is seen by the other, at once', async ([a, b], fleet) => {
  fleet.data.set('tag', 'one');
  assert.equal((await visit(a, '/listed/tag')).says, 'one');
  fleet.data.set('tag', 'two');
  assert.equal((await visit(b, '/listed/tag')).says, 'one');
  await fleet.revalidate(b, { tag: 'list-tag' });
  const seen = await Promise.all([visit(a, '/listed/tag'), visit(b, '/listed/tag'), visit(a, '/listed/tag')]);
  for (const { says } of seen) assert.equal(says, 'two');
  assert.equal((await fleet.made('listed/tag')).length, 2);
  assert.equal(fleet.asked('tag'), 2);
});

onTwo('revalidateTag with a profile shows the page once more, and makes it anew behind', async ([a, b], fleet) => {
  fleet.data.set('soft', 'one');
  const first = await visit(a, '/listed/soft');
  fleet.data.set('soft', 'two');
  await fleet.revalidate(a, { tag: 'list-soft', profile: 'max' });
  const next = await visit(b, '/listed/soft');
  assert.equal(next.at, first.at);
  assert.equal(next.cache, 'STALE');
  await until('both have the new page', async () => {
    const seen = await Promise.all([visit(a, '/listed/soft'), visit(b, '/listed/soft')]);
    return seen.every((s) => s.says === 'two');
  });
  assert.equal((await fleet.made('listed/soft')).length, 2);
});

onTwo('a page during whose making its tag is revalidated is made again', async ([a, b], fleet) => {
  fleet.data.set('during', 'one');
  await fleet.gate(true);
  const first = visit(a, '/listed/during');
  await until('it is being made', async () => (await fleet.made('listed/during')).length === 1);
  fleet.data.set('during', 'two');
  await fleet.revalidate(b, { tag: 'list-during' });
  await fleet.gate(false);
  assert.equal((await first).says, 'one');
  assert.equal((await visit(b, '/listed/during')).says, 'two');
  assert.equal((await visit(a, '/listed/during')).says, 'two');
});

onTwo('a server that is killed while it makes a page is replaced when its lease ends', async ([a, b], fleet) => {
  const first = await visit(a, '/timed/killed');
  await fleet.gate(true);
  await until('it is being made anew', async () => {
    await visit(a, '/timed/killed');
    return (await fleet.made('timed/killed')).length === 2;
  });
  await a.kill();
  assert.equal((await visit(b, '/timed/killed')).at, first.at);
  await fleet.gate(false);
  await until('the other has made it', async () => (await visit(b, '/timed/killed')).at !== first.at);
  const [, second, third] = await fleet.made('timed/killed');
  assert.notEqual(third?.pid, second?.pid);
});

onTwo('a page that nobody has, and whose maker is killed, is made by the other', async ([a, b], fleet) => {
  await fleet.gate(true);
  const lost = visit(a, '/listed/orphan').catch(() => undefined);
  await until('it is being made', async () => (await fleet.made('listed/orphan')).length === 1);
  const waiting = visit(b, '/listed/orphan');
  await a.kill();
  await fleet.gate(false);
  assert.equal((await waiting).status, 200);
  assert.equal((await fleet.made('listed/orphan')).length, 2);
  await lost;
});

onTwo('a page that cannot be made anew stays, and is left alone for a while', async (two, fleet) => {
  const first = await visit(two[0], '/timed/broken');
  await fleet.broken(true);
  await until('it was tried', async () => {
    for (const server of two) assert.equal((await visit(server, '/timed/broken')).at, first.at);
    return (await fleet.made('timed/broken')).length >= 2;
  });
  for (let i = 0; i < 20; i++) {
    for (const server of two) assert.equal((await visit(server, '/timed/broken')).at, first.at);
  }
  assert.equal((await fleet.made('timed/broken')).length, 2);
  await fleet.broken(false);
  await until('it was made', async () => (await visit(two[1], '/timed/broken')).at !== first.at);
});

onTwo('what Next keeps beside pages is kept: 404s, redirects, bytes and headers', async ([a, b], fleet) => {
  for (const [path, status] of [
    ['/old/page', 200],
    ['/old/none', 404],
    ['/old/moved', 307],
    ['/answers/bytes', 200],
  ] as const) {
    const first = await visit(a, path);
    const second = await visit(b, path);
    assert.equal(first.status, status, path);
    assert.equal(second.cache, 'HIT', path);
    assert.deepEqual([second.status, second.bytes], [first.status, first.bytes], path);
    for (const name of ['content-type', 'location', 'x-made', 'x-next-cache-tags']) {
      assert.equal(second.headers.get(name), first.headers.get(name), `${path} ${name}`);
    }
  }
  assert.deepEqual((await visit(b, '/answers/bytes')).bytes, Buffer.from([0, 255, 254, 10, 13]));
  assert.equal((await fleet.made()).length, 4);
});

onTwo('images are made once, if the site has them kept', async ([a, b]) => {
  const image = '/_next/image?url=%2Fcloth.png&w=64&q=75';
  const first = await visit(a, image);
  assert.equal(first.status, 200, first.text);
  // Next sends an image before it keeps it.
  await until('it is kept', async () => (await visit(a, image)).cache === 'HIT');
  const second = await visit(b, image);
  assert.equal(second.cache, 'HIT');
  assert.deepEqual(second.bytes, first.bytes);
  assert.equal(second.headers.get('etag'), first.headers.get('etag'));
});

onTwo('the data of a page is that of its markup, whoever asks for it', async ([a, b]) => {
  const page = await visit(a, '/timed/rsc');
  const data = await visit(b, '/timed/rsc?_rsc', { headers: { rsc: '1' } });
  assert.match(data.headers.get('content-type') ?? '', /text\/x-component/);
  assert.ok(data.text.includes(page.at), data.text);
});

onFleet('without the table pages are served all the same, and kept again when it is back', async (fleet, t, table) => {
  const line = await newLine(t, table.engine.endpoint);
  const server = await fleet.start({ AWS_ENDPOINT_URL_DYNAMODB: line.url });
  const first = await visit(server, '/listed/outage');
  assert.equal((await visit(server, '/listed/outage')).at, first.at);
  line.cut();
  for (let i = 0; i < 3; i++) assert.equal((await visit(server, '/listed/outage')).status, 200);
  assert.match(server.output(), /ISR cache: a look-up failed/);
  await askToRevalidate(server, { path: '/listed/outage' });
  await until('the failure is reported', () => /the revalidation of _N_T_\/listed\/outage/.test(server.output()));
  line.mend();
  await until('the page is kept again', async () => {
    const seen = [await visit(server, '/listed/outage'), await visit(server, '/listed/outage')];
    return seen.every((s) => s.cache === 'HIT');
  });
});

onFleet('a body that is gone is made anew, unless the process has it in memory', async (fleet, _t, _table, bucket) => {
  const forgetful = await fleet.start();
  const mindful = await fleet.start({ SITE_MEMORY: String(1 << 20) });
  const first = await visit(mindful, '/listed/gone');
  assert.equal((await visit(mindful, '/listed/gone')).at, first.at); // from the bucket, into memory
  const { Contents = [] } = await bucket.s3.send(new ListObjectsV2Command({ Bucket: bucket.name }));
  const Objects = Contents.map(({ Key }) => ({ Key }));
  await bucket.s3.send(new DeleteObjectsCommand({ Bucket: bucket.name, Delete: { Objects } }));
  assert.equal((await visit(mindful, '/listed/gone')).at, first.at);
  const second = await visit(forgetful, '/listed/gone');
  assert.notEqual(second.at, first.at);
  assert.equal((await visit(mindful, '/listed/gone')).at, second.at);
});

/** A line to a server that can be cut: nobody gets through, and who was speaking is interrupted. */
async function newLine(t: TestContext, endpoint: string): Promise<{ url: string; cut(): void; mend(): void }> {
  const { hostname, port } = new URL(endpoint);
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((near) => {
    if (isCut) {
      near.destroy();
      return;
    }
    const far = connect(Number(port), hostname);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {}); // it is closed next
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    isCut = true;
    for (const socket of sockets) socket.destroy();
  };
  t.after(() => {
    cut();
    server.close();
  });
  const address = server.address() as { port: number };
  return { url: `http://127.0.0.1:${address.port}`, cut, mend: () => (isCut = false) };
}
