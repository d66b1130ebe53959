/** The cache handler in real Next.js servers. The tests run concurrently: mostly they wait for windows and leases. */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { DeleteObjectsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';

import { storeOn } from '../isr/table.js';
import { behindTests } from './behind.js';
import { deploymentTests } from './deployments.js';
import { failureTests } from './failures.js';
import { cleanUp, missing, newProxy, onFleet, onOwnPair, onPair } from './fleets.js';
import {
  buildSite,
  isNext15,
  noNext,
  regenerateWithPlural,
  requestRevalidation,
  type Server,
  until,
  visit,
} from './servers.js';

describe('the site', { concurrency: 4 }, () => {
  before(async () => {
    if (!missing) await buildSite();
  });

  after(cleanUp);

  deploymentTests();
  behindTests();
  failureTests();

  if (!isNext15) {
    test('a build with the handler in cacheHandlers, the plural, fails at once with the reason', {
      skip: noNext ?? false,
    }, async () => {
      const { status, output } = await regenerateWithPlural();
      assert.equal(status, 1, output);
      assert.match(output, /set cacheHandler, in the singular/);
      assert.doesNotMatch(output, /because it took more than/);
    });
  }

  onPair('a cold page with many visitors is rendered once', async ({ two, fleet }) => {
    const visits = await Promise.all(Array.from({ length: 40 }, (_, i) => visit(two[i % 2] as Server, '/listed/cold')));
    assert.deepEqual(new Set(visits.map((v) => v.status)), new Set([200]));
    assert.equal(new Set(visits.map((v) => v.at)).size, 1);
    assert.equal((await fleet.renderings('listed/cold')).length, 1);
  });

  onPair(
    'pages behind an edge middleware have the lifetimes that are left, on both servers',
    async ({ two, fleet }) => {
      for (const server of [...two, ...two]) {
        const { status, headers } = await visit(server, '/listed/behind');
        assert.deepEqual([status, headers.get('x-proxied')], [200, 'edge']);
        assert.match(headers.get('cache-control') ?? '', /^s-maxage=(3600|3[0-5]\d\d),/);
      }
      assert.equal((await fleet.renderings('listed/behind')).length, 1);
    },
    [15],
  );

  onPair('a busy page is rendered once per expiry by two servers', async ({ two, fleet }) => {
    const startedAt = performance.now();
    const seen = new Set<string>();
    const visitor = async (server: Server) => {
      while ((await fleet.renderings('timed/busy')).length < 4) {
        seen.add((await visit(server, '/timed/busy')).at);
        await new Promise((resolve) => setTimeout(resolve, 50)); // leaves the CPU to the other tests
      }
    };
    await Promise.all([...two, ...two, ...two, ...two].map(visitor));
    // Windows are three seconds from the second in which a rendering began, so four renderings
    // take more than eight seconds; a second rendering of one expiry would make it five.
    const elapsed = performance.now() - startedAt;
    assert.ok(elapsed > 8000, `four renderings within ${elapsed} ms: ${[...seen]}`);
    // The last one may not have been seen.
    assert.ok(seen.size >= 3, `a rendering was discarded: saw ${[...seen]}`);
  });

  onPair('both servers serve a stale page while it is regenerated', async ({ two, fleet }) => {
    const [a, b] = two;
    const first = await visit(a, '/timed/slow');
    await fleet.gate('timed/slow', true);
    await until('the page is regenerated', async () => {
      for (const server of two) assert.equal((await visit(server, '/timed/slow')).at, first.at);
      return (await fleet.renderings('timed/slow')).length === 2;
    });
    for (let i = 0; i < 10; i++) {
      const visits = await Promise.all([visit(a, '/timed/slow'), visit(b, '/timed/slow')]);
      assert.deepEqual(new Set(visits.map((v) => v.at)), new Set([first.at]));
      assert.match(visits[1].headers.get('cache-control') ?? '', /s-maxage=1,/, 'a CDN must not keep a stale page');
    }
    assert.equal((await fleet.renderings('timed/slow')).length, 2);
    await fleet.gate('timed/slow', false);
    await until('both servers serve the new page', async () => {
      const visits = await Promise.all([visit(a, '/timed/slow'), visit(b, '/timed/slow')]);
      return visits.every((v) => v.at !== first.at);
    });
  });

  onPair('revalidatePath on one server takes effect on the other at once', async ({ two: [a, b], fleet }) => {
    for (const [path, name] of [
      ['/listed/path', 'listed/path'],
      ['/answers/path', 'answers/path'],
      ['/', 'home'],
    ] as const) {
      const before = await visit(a, path);
      assert.deepEqual((await visit(b, path)).bytes, before.bytes);
      const renderings = (await fleet.renderings(name)).length;
      await fleet.revalidate(a, { path });
      await visit(b, path);
      await visit(a, path);
      assert.equal((await fleet.renderings(name)).length, renderings + 1, path);
    }
  });

  onPair('revalidateTag of a fetch takes effect on the other server at once', async ({ two: [a, b], fleet }) => {
    fleet.data.set('tag', 'one');
    assert.equal((await visit(a, '/listed/tag')).shown, 'one');
    fleet.data.set('tag', 'two');
    assert.equal((await visit(b, '/listed/tag')).shown, 'one');
    await fleet.revalidate(b, { tag: 'list-tag' });
    const visits = await Promise.all([visit(a, '/listed/tag'), visit(b, '/listed/tag'), visit(a, '/listed/tag')]);
    for (const { shown } of visits) assert.equal(shown, 'two');
    assert.equal((await fleet.renderings('listed/tag')).length, 2);
    assert.equal(fleet.requests('tag'), 2);
  });

  onPair(
    'revalidateTag with a profile serves the stale page while it regenerates',
    async ({ two: [a, b], fleet }) => {
      fleet.data.set('soft', 'one');
      const first = await visit(a, '/listed/soft');
      fleet.data.set('soft', 'two');
      await fleet.revalidate(a, { tag: 'list-soft', profile: 'max' });
      const next = await visit(b, '/listed/soft');
      assert.equal(next.at, first.at);
      assert.equal(next.cache, 'STALE');
      await until('both servers serve the new page', async () => {
        const visits = await Promise.all([visit(a, '/listed/soft'), visit(b, '/listed/soft')]);
        return visits.every((v) => v.shown === 'two');
      });
      assert.equal((await fleet.renderings('listed/soft')).length, 2);
    },
    [16],
  );

  onFleet('purges by other programs take effect on all servers at once', async ({ fleet, table }) => {
    const servers = await Promise.all([fleet.start(), fleet.start()]);
    const others = storeOn(table);
    let renderings = 0;
    for (const target of [
      { kind: 'tag', value: 'list-other' },
      { kind: 'prefix', value: 'next/' },
      { kind: 'site' },
    ] as const) {
      for (const how of [{ hard: true }, {}]) {
        const first = await visit(servers[0] as Server, '/listed/other');
        assert.equal((await visit(servers[1] as Server, '/listed/other')).at, first.at);
        assert.equal((await fleet.renderings('listed/other')).length, Math.max(renderings, 1));
        await others.purge([target], how);
        const next = await visit(servers[1] as Server, '/listed/other');
        assert.equal(next.at === first.at, !how.hard, `${target.kind}: shown although it is purged`);
        await until('both servers serve the new page', async () => {
          const visits = await Promise.all(servers.map((server) => visit(server, '/listed/other')));
          return visits.every((v) => v.at !== first.at);
        });
        renderings = Math.max(renderings, 1) + 1;
        assert.equal((await fleet.renderings('listed/other')).length, renderings, `${target.kind}: rendered once`);
      }
    }
  });

  onPair('a page whose tag is revalidated during its rendering is rendered again', async ({ two: [a, b], fleet }) => {
    fleet.data.set('during', 'one');
    await fleet.gate('listed/during', true);
    const first = visit(a, '/listed/during');
    await until('the rendering has begun', async () => (await fleet.renderings('listed/during')).length === 1);
    fleet.data.set('during', 'two');
    await fleet.revalidate(b, { tag: 'list-during' });
    await fleet.gate('listed/during', false);
    assert.equal((await first).shown, 'one');
    assert.equal((await visit(b, '/listed/during')).shown, 'two');
    assert.equal((await visit(a, '/listed/during')).shown, 'two');
  });

  onOwnPair(
    'a server killed during a regeneration is replaced when its lease expires',
    async ({ two: [a, b], fleet }) => {
      const first = await visit(a, '/timed/killed');
      await fleet.gate('timed/killed', true);
      await until('the regeneration has begun', async () => {
        await visit(a, '/timed/killed');
        return (await fleet.renderings('timed/killed')).length === 2;
      });
      await a.kill();
      assert.equal((await visit(b, '/timed/killed')).at, first.at);
      await fleet.gate('timed/killed', false);
      await until('the other server has rendered', async () => (await visit(b, '/timed/killed')).at !== first.at);
      const [, second, third] = await fleet.renderings('timed/killed');
      assert.notEqual(third?.pid, second?.pid);
    },
  );

  onOwnPair('a cold page whose server is killed is rendered by the other', async ({ two: [a, b], fleet }) => {
    await fleet.gate('listed/orphan', true);
    const lost = visit(a, '/listed/orphan').catch(() => undefined);
    await until('the rendering has begun', async () => (await fleet.renderings('listed/orphan')).length === 1);
    const waiting = visit(b, '/listed/orphan');
    await a.kill();
    await fleet.gate('listed/orphan', false);
    assert.equal((await waiting).status, 200);
    assert.equal((await fleet.renderings('listed/orphan')).length, 2);
    await lost;
  });

  onPair('a failed regeneration keeps the page and starts a backoff', async ({ two, fleet }) => {
    const first = await visit(two[0], '/timed/broken');
    let failedAfter = performance.now();
    await fleet.fail('timed/broken', true);
    await until('a regeneration has failed', async () => {
      const now = performance.now();
      for (const server of two) assert.equal((await visit(server, '/timed/broken')).at, first.at);
      const hasFailed = (await fleet.renderings('timed/broken')).length >= 2;
      if (!hasFailed) failedAfter = now;
      return hasFailed;
    });
    for (let i = 0; i < 20; i++) {
      for (const server of two) assert.equal((await visit(server, '/timed/broken')).at, first.at);
    }
    const renderings = (await fleet.renderings('timed/broken')).length;
    // The backoff is at least three seconds; a busy machine may take longer for the visits.
    if (performance.now() - failedAfter < 3000) assert.equal(renderings, 2);
    await fleet.fail('timed/broken', false);
    await until('the page is regenerated', async () => (await visit(two[1], '/timed/broken')).at !== first.at);
  });

  onPair('404s, redirects, bytes and headers are cached', async ({ two: [a, b], fleet }) => {
    for (const [name, status] of [
      ['old/page', 200],
      ['old/none', 404],
      ['old/moved', 307],
      ['answers/bytes', 200],
    ] as const) {
      const first = await visit(a, `/${name}`);
      const second = await visit(b, `/${name}`);
      assert.equal(first.status, status, name);
      assert.equal(second.cache, 'HIT', name);
      assert.deepEqual([second.status, second.bytes], [first.status, first.bytes], name);
      for (const header of ['content-type', 'location', 'x-rendered', 'x-next-cache-tags']) {
        assert.equal(second.headers.get(header), first.headers.get(header), `${name} ${header}`);
      }
      assert.equal((await fleet.renderings(name)).length, 1, name);
    }
    assert.deepEqual((await visit(b, '/answers/bytes')).bytes, Buffer.from([0, 255, 254, 10, 13]));
  });

  onPair(
    'optimized images are shared if the site enables it',
    async ({ two: [a, b] }) => {
      const image = '/_next/image?url=%2Fcloth.png&w=64&q=75';
      const first = await visit(a, image);
      assert.equal(first.status, 200, first.text);
      // Next.js sends an image before it stores it.
      await until('the image is stored', async () => (await visit(a, image)).cache === 'HIT');
      const second = await visit(b, image);
      assert.equal(second.cache, 'HIT');
      assert.deepEqual(second.bytes, first.bytes);
      assert.equal(second.headers.get('etag'), first.headers.get('etag'));
    },
    [16],
  );

  onPair('the RSC payload of a page matches its HTML on both servers', async ({ two: [a, b] }) => {
    const page = await visit(a, '/timed/rsc');
    const data = await visit(b, '/timed/rsc?_rsc', { headers: { rsc: '1' } });
    assert.match(data.headers.get('content-type') ?? '', /text\/x-component/);
    assert.ok(data.text.includes(page.at), data.text);
  });

  onFleet('pages seen before are served in an outage, and its revalidations reach all servers', async (stores, t) => {
    const { fleet, table } = stores;
    const proxy = await newProxy(t, table.engine.endpoint);
    const [server, other] = await Promise.all([
      fleet.start({ AWS_ENDPOINT_URL_DYNAMODB: proxy.url, SITE_MEMORY: String(1 << 20) }),
      fleet.start(),
    ]);
    const paths = ['/listed/outage', '/old/outage', '/answers/outage'];
    const at = async (of: Server, path: string) => {
      const found = await visit(of, path);
      assert.equal(found.status, 200, path);
      return found.at || found.headers.get('x-rendered');
    };
    const first = new Map<string, string | null>();
    for (const path of paths) first.set(path, await at(server, path));
    proxy.cut();
    for (const path of [...paths, ...paths]) assert.equal(await at(server, path), first.get(path), path);
    assert.equal((await visit(server, '/listed/unseen')).status, 200);
    assert.match(server.output(), /ISR cache: a look-up failed/);
    // A route handler has answered before Next.js revalidates; res.revalidate waits for the new page.
    await requestRevalidation(server, { path: '/listed/outage' });
    await requestRevalidation(server, { path: '/answers/outage' });
    assert.equal((await visit(server, '/api/demand?path=/old/outage')).text, 'rendered');
    for (const path of paths) {
      await until(`${path} is new`, async () => (await at(server, path)) !== first.get(path));
      assert.equal(await at(other, path), first.get(path), `${path}: the other server cannot know`);
    }
    proxy.restore();
    for (const path of paths) {
      await until(`${path} is new on the other server`, async () => (await at(other, path)) !== first.get(path));
      await until('the servers agree', async () => (await at(other, path)) === (await at(server, path)));
    }
  });

  onFleet('a table that hangs delays visitors, but none gets an error', async ({ fleet, table }, t) => {
    const proxy = await newProxy(t, table.engine.endpoint);
    const server = await fleet.start({ AWS_ENDPOINT_URL_DYNAMODB: proxy.url, SITE_CALL_SECONDS: '1' });
    const paths = ['/listed/hanging', '/built/d', '/old/hanging', '/answers/built'];
    for (const path of paths) await visit(server, path);
    proxy.hang();
    for (let i = 0; i < 3; i++) {
      const visits = await Promise.all(paths.map((path) => visit(server, path)));
      assert.deepEqual(new Set(visits.map(({ status }) => status)), new Set([200]));
    }
    assert.match(server.output(), /ISR cache: a look-up failed/);
    proxy.restore();
    await until('the page is cached again', async () => {
      const visits = [await visit(server, '/listed/hanging'), await visit(server, '/listed/hanging')];
      return visits.every((v) => v.cache === 'HIT');
    });
  });

  onFleet('a page whose body is gone is rendered again, unless it is in memory', async ({ fleet, bucket }) => {
    const [without, withMemory] = await Promise.all([fleet.start(), fleet.start({ SITE_MEMORY: String(1 << 20) })]);
    const first = await visit(withMemory, '/listed/gone');
    assert.equal((await visit(withMemory, '/listed/gone')).at, first.at); // from the bucket, into memory
    const { Contents = [] } = await bucket.s3.send(new ListObjectsV2Command({ Bucket: bucket.name }));
    const Objects = Contents.map(({ Key }) => ({ Key }));
    await bucket.s3.send(new DeleteObjectsCommand({ Bucket: bucket.name, Delete: { Objects } }));
    assert.equal((await visit(withMemory, '/listed/gone')).at, first.at);
    const second = await visit(without, '/listed/gone');
    assert.notEqual(second.at, first.at);
    assert.equal((await visit(withMemory, '/listed/gone')).at, second.at);
  });
});
