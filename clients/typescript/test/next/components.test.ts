/** The handlers of pages and of 'use cache' in real Next.js servers with `cacheComponents`: partial prerendering included. */

import assert from 'node:assert/strict';
import { after, before, describe, type TestContext } from 'node:test';

import type { Cleanup, Engine } from '../engines.js';
import { storeOn } from '../isr/table.js';
import { missing, newProxy, newStores, nextEngine, onEngine, type Stores, withOutput } from './fleets.js';
import { buildComponents, componentsSite, type Server, until, visit } from './servers.js';

interface Pair extends Stores {
  two: [Server, Server];
}

async function newPair(t: Cleanup, engine: Engine, environment: Record<string, string> = {}): Promise<Pair> {
  const stores = await newStores(t, engine, componentsSite);
  const [a, b] = await Promise.all([stores.fleet.start(environment), stores.fleet.start(environment)]);
  return { ...stores, two: [a, b] };
}

const cleanups: (() => unknown)[] = [];
const pairs = new Map<string, Promise<Pair>>();

/** Defines a test on the pair of servers that the tests on an engine share. Each test has its own names. */
function onPair(name: string, body: (pair: Pair) => Promise<void>): void {
  onEngine(name, nextEngine(), async (engine) => {
    const suite: Cleanup = { after: (work) => void cleanups.push(work as () => unknown) };
    const known = pairs.get(engine.name) ?? newPair(suite, engine);
    pairs.set(engine.name, known);
    const pair = await known;
    await withOutput(pair.fleet, () => body(pair));
  });
}

/** Defines a test with servers of its own. */
function onFleet(name: string, body: (stores: Stores, t: TestContext) => Promise<void>): void {
  onEngine(name, nextEngine(), async (engine, t) => {
    const stores = await newStores(t, engine, componentsSite);
    await withOutput(stores.fleet, () => body(stores, t));
  });
}

/** Submits the form of /item/NAME, as a browser without scripts does. */
async function change(server: Server, name: string, value: string) {
  const { text } = await visit(server, `/item/${name}`);
  const action = /name="(\$ACTION_ID_[0-9a-f]+)"/.exec(text)?.[1];
  assert.ok(action, text);
  const form = new FormData();
  form.set(action, '');
  form.set('name', name);
  form.set('value', value);
  return visit(server, `/item/${name}`, { method: 'POST', body: form, headers: { origin: server.url } });
}

/** Waits until both servers show a value, and returns how often the function was called. */
async function bothShow({ two, fleet }: Pair, path: string, value: string): Promise<number> {
  await until(`both servers show ${value}`, async () => {
    const visits = await Promise.all(two.map((server) => visit(server, path)));
    return visits.every(({ shown }) => shown === value);
  });
  return (await fleet.renderings(path.slice(1))).length;
}

describe("'use cache'", { concurrency: 4 }, () => {
  before(async () => {
    if (!missing) await buildComponents();
  });

  after(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  for (const kind of ['item', 'remote', 'nested', 'component'] as const) {
    onPair(`complaint: no 'use cache': the result of a function (${kind}) is shared by two servers`, async (pair) => {
      const { two, fleet } = pair;
      const visits = await Promise.all(
        Array.from({ length: 12 }, (_, i) => visit(two[i % 2] as Server, `/${kind}/cold`)),
      );
      assert.deepEqual(new Set(visits.map(({ status }) => status)), new Set([200]));
      assert.equal(new Set(visits.map(({ at }) => at)).size, 1);
      assert.match(visits[0]?.at ?? '', /^\d+$/);
      assert.equal((await fleet.renderings(`${kind}/cold`)).length, 1);
    });
  }

  onPair('a Server Action with updateTag: its visitor sees the change, and the other server at once', async (pair) => {
    const { two, fleet } = pair;
    const [a, b] = two;
    fleet.data.set('write', 'one');
    for (const server of two) assert.equal((await visit(server, '/item/write')).shown, 'one');
    for (const value of ['two', 'three', 'four']) {
      assert.equal((await change(a, 'write', value)).shown, value, 'the visitor of the action');
      for (const server of [b, a]) assert.equal((await visit(server, '/item/write')).shown, value);
    }
    // Next.js also renders the page in the background, for its shell: such a call may be outdated when it ends.
    const calls = (await fleet.renderings('item/write')).length;
    assert.ok(calls >= 4 && calls <= 7, `${calls} calls for 14 visits`);
  });

  onPair('updateTag also expires the results of functions that call the function', async (pair) => {
    const { two, fleet } = pair;
    fleet.data.set('inner', 'one');
    for (const server of two) assert.equal((await visit(server, '/nested/inner')).shown, 'one');
    fleet.data.set('inner', 'two');
    await fleet.revalidate(two[0], { tag: 'item-inner' });
    for (const server of [two[1], two[0]]) assert.equal((await visit(server, '/nested/inner')).shown, 'two');
    assert.equal((await fleet.renderings('nested/inner')).length, 2);
  });

  onPair(
    "complaint: revalidateTag(tag, 'max') twice: the function is called once each time, and cached again",
    async (pair) => {
      const { two, fleet } = pair;
      fleet.data.set('max', 'one');
      for (const server of two) assert.equal((await visit(server, '/item/max')).shown, 'one');
      for (const [i, value] of ['two', 'three'].entries()) {
        fleet.data.set('max', value);
        await fleet.revalidate(two[0], { tag: 'item-max', profile: 'max' });
        assert.notEqual((await visit(two[1], '/item/max')).shown, '', 'served while the function is called');
        assert.equal(await bothShow(pair, '/item/max', value), i + 2);
      }
      for (const server of [...two, ...two]) assert.equal((await visit(server, '/item/max')).shown, 'three');
      assert.equal((await fleet.renderings('item/max')).length, 3, 'cached again');
    },
  );

  onPair('cacheLife: a function is called once per expiry by two servers', async ({ two, fleet }) => {
    const startedAt = performance.now();
    while ((await fleet.renderings('brief/life')).length < 3) {
      for (const server of two) assert.equal((await visit(server, '/brief/life')).status, 200);
      await new Promise((resolve) => setTimeout(resolve, 50)); // leaves the CPU to the other tests
    }
    // A second call for an expiry would come within three seconds of the first.
    const elapsed = performance.now() - startedAt;
    assert.ok(elapsed > 5900, `three calls within ${elapsed} ms`);
  });

  onPair(
    'complaint: cacheHandlers alone: a static page is dropped by a tag of a function that it has called',
    async (pair) => {
      const { two, fleet } = pair;
      const [a, b] = two;
      for (const server of two) assert.equal((await visit(server, '/whole')).shown, 'built');
      fleet.data.set('whole', 'one');
      await fleet.revalidate(a, { tag: 'item-whole' });
      for (const server of [b, a]) assert.equal((await visit(server, '/whole')).shown, 'one');
      fleet.data.set('whole', 'two');
      await fleet.revalidate(b, { path: '/whole' });
      for (const server of [a, b]) assert.equal((await visit(server, '/whole')).shown, 'two');
    },
  );

  onPair(
    'partial prerendering: the shell is shared, its hole is of each visit, and a tag drops the shell',
    async (pair) => {
      const { two, fleet } = pair;
      const [a, b] = two;
      const hole = (text: string) => /<i>([\d.]+)<\/i>/.exec(text)?.[1];
      const built = await Promise.all([visit(a, '/part'), visit(b, '/part'), visit(a, '/part')]);
      assert.deepEqual(new Set(built.map(({ shown }) => shown)), new Set(['built']));
      assert.equal(new Set(built.map(({ text }) => hole(text))).size, 3);
      assert.equal((await fleet.renderings('item/part')).length, 0, 'the shell of the build is used');
      for (const [i, value] of ['one', 'two'].entries()) {
        fleet.data.set('part', value);
        await fleet.revalidate(two[i] as Server, { tag: 'item-part' });
        const visits = await Promise.all([b, a, b, a].map((server) => visit(server, '/part')));
        assert.deepEqual(new Set(visits.map(({ shown }) => shown)), new Set([value]));
        assert.equal(new Set(visits.map(({ text }) => hole(text))).size, 4);
        for (const { text } of visits) assert.match(text, /<\/html>/);
      }
    },
  );

  onPair('complaint: static pages are 404: pages on demand, and pages that do not exist', async ({ two, fleet }) => {
    for (const [slug, status, calls] of [
      ['built', 200, 0],
      ['new', 200, 1],
      ['none', 404, 1],
    ] as const) {
      const visits = [];
      for (const server of [...two, ...two]) visits.push(await visit(server, `/made/${slug}`));
      assert.deepEqual(
        visits.map((found) => found.status),
        [status, status, status, status],
        slug,
      );
      if (status === 200) assert.equal(new Set(visits.map(({ at }) => at)).size, 1, slug);
      assert.ok((await fleet.renderings(`made/${slug}`)).length <= Math.max(calls, 1), slug);
    }
  });

  onPair(
    'complaint: new processes call functions again: a new server uses what the others have stored',
    async ({ two, fleet }) => {
      fleet.data.set('new', 'one');
      const { at } = await visit(two[0], '/item/new');
      const server = await fleet.start();
      assert.equal((await visit(server, '/item/new')).at, at);
      await server.kill();
    },
  );

  onFleet(
    'a server that is killed during the call of a function is replaced when its lease expires',
    async (stores) => {
      const { fleet } = stores;
      const environment = { SITE_LEASE_SECONDS: '6' };
      const [a, b] = await Promise.all([fleet.start(environment), fleet.start(environment)]);
      await fleet.gate('item/killed', true);
      const lost = visit(a, '/item/killed').catch(() => undefined);
      await until('the call has begun', async () => (await fleet.renderings('item/killed')).length === 1);
      const waiting = visit(b, '/item/killed');
      await a.kill();
      await fleet.gate('item/killed', false);
      assert.match((await waiting).at, /^\d+$/);
      assert.equal((await fleet.renderings('item/killed')).length, 2);
      await lost;
    },
  );

  onFleet(
    'complaint: the table is down: visitors get results of new calls, and cached ones again after it',
    async (stores, t) => {
      const { fleet, table } = stores;
      const proxy = await newProxy(t, table.engine.endpoint);
      const server = await fleet.start({ AWS_ENDPOINT_URL_DYNAMODB: proxy.url, SITE_CALL_SECONDS: '2' });
      fleet.data.set('down', 'one');
      assert.equal((await visit(server, '/item/down')).shown, 'one');
      for (const outage of ['cut', 'hang'] as const) {
        proxy[outage]();
        for (let i = 0; i < 2; i++) {
          const { status, shown } = await visit(server, '/item/down');
          assert.deepEqual([status, shown], [200, 'one'], outage);
        }
        proxy.restore();
        await until('the result is cached again', async () => {
          const visits = [await visit(server, '/item/down'), await visit(server, '/item/down')];
          return new Set(visits.map(({ at }) => at)).size === 1;
        });
      }
      assert.match(server.output(), /ISR cache: .* failed/);
    },
  );

  onFleet(
    'a Server Action in an outage succeeds, and its updateTag reaches all servers after it',
    async (stores, t) => {
      const { fleet, table } = stores;
      const proxy = await newProxy(t, table.engine.endpoint);
      const [server, other] = await Promise.all([
        fleet.start({ AWS_ENDPOINT_URL_DYNAMODB: proxy.url, SITE_CALL_SECONDS: '2', SITE_MEMORY: String(1 << 20) }),
        fleet.start(),
      ]);
      fleet.data.set('action', 'one');
      for (const of of [server, other]) assert.equal((await visit(of, '/item/action')).shown, 'one');
      proxy.cut();
      const answer = await change(server, 'action', 'two');
      assert.deepEqual([answer.status, answer.shown], [200, 'two']);
      assert.equal((await visit(server, '/item/action')).shown, 'two');
      assert.equal((await visit(other, '/item/action')).shown, 'one', 'the other server cannot know');
      proxy.restore();
      await until('the other server shows it', async () => (await visit(other, '/item/action')).shown === 'two');
    },
  );

  onPair('purges by other programs apply to functions at once', async ({ two, fleet, table }) => {
    fleet.data.set('other', 'one');
    for (const server of two) assert.equal((await visit(server, '/item/other')).shown, 'one');
    fleet.data.set('other', 'two');
    await storeOn(table).purge([{ kind: 'tag', value: 'item-other' }], { hard: true });
    for (const server of two) assert.equal((await visit(server, '/item/other')).shown, 'two');
  });

  onPair('a function whose tag is revalidated during its call is called again', async ({ two: [a, b], fleet }) => {
    fleet.data.set('during', 'one');
    await fleet.gate('item/during', true);
    const first = visit(a, '/item/during');
    await until('the call has begun', async () => (await fleet.renderings('item/during')).length === 1);
    await fleet.revalidate(b, { tag: 'item-during' });
    fleet.data.set('during', 'two');
    await fleet.gate('item/during', false);
    await first;
    for (const server of [b, a]) assert.equal((await visit(server, '/item/during')).shown, 'two');
  });
});
