/** Tests of builds and deployments: what servers take over from `next build`, and several builds on one table. */

import assert from 'node:assert/strict';

import { itemsOf, StoppedClock, storeOn } from '../isr/table.js';
import { onFleet } from './fleets.js';
import { buildStartedAt, type Deployment, isNext15, readBuilt, type Server, until, visit } from './servers.js';

/** Returns the address of a page's data, which has BUILD_ID: a constant in builds of Next.js 16 with a deploymentId. */
async function dataOf(path: string): Promise<string> {
  return `/_next/data/${await readBuilt('one', 'BUILD_ID')}${path}.json`;
}

/** The pages that the build has made, with the status, and the name under which they are rendered. */
const builtPages = [
  { path: '/', status: 200, name: 'home' },
  { path: '/built/a', status: 200, name: 'built/a' },
  { path: '/built/%C3%BC', status: 200, name: 'built/ü' },
  { path: '/built/none', status: 404, name: 'built/none' },
  { path: '/answers/built', status: 200, name: 'answers/built' },
  { path: '/old/built', status: 200, name: 'old/built' },
  { path: '/old/absent', status: 404, name: 'old/absent' },
] as const;

/** Defines the tests; they belong to the suite of the site, whose builds they share. */
export function deploymentTests(): void {
  onFleet(
    'pages of the build are served by all servers, and by new ones, without a rendering',
    async (stores) => {
      const { fleet, table } = stores;
      const servers = await Promise.all([fleet.start(), fleet.start()]);
      const bodies = new Map<string, Buffer>();
      const visitAll = async (server: Server) => {
        for (const { path, status } of builtPages) {
          const found = await visit(server, path);
          assert.equal(found.status, status, path);
          assert.equal(found.cache, 'HIT', path);
          assert.deepEqual(found.bytes, bodies.get(path) ?? found.bytes, path);
          bodies.set(path, found.bytes);
        }
      };
      for (const server of servers) await visitAll(server);
      assert.deepEqual(bodies.get('/built/a'), await readBuilt('one', 'server/app/built/a.html'));
      assert.deepEqual(bodies.get('/answers/built'), Buffer.from([0, 255, 254, 10, 13]));
      const [server] = servers;
      const rsc = await visit(server as Server, '/built/a?_rsc', { headers: { rsc: '1' } });
      assert.deepEqual(rsc.bytes, await readBuilt('one', 'server/app/built/a.rsc'));
      if (!isNext15) {
        const segment = { rsc: '1', 'next-router-prefetch': '1', 'next-router-segment-prefetch': '/_tree' };
        const tree = await visit(server as Server, '/built/a', { headers: segment, redirect: 'follow' });
        assert.deepEqual(tree.bytes, await readBuilt('one', 'server/app/built/a.segments/_tree.segment.rsc'));
      }
      const data = await visit(server as Server, await dataOf('/old/built'));
      assert.deepEqual(
        JSON.parse(data.text),
        JSON.parse(String(await readBuilt('one', 'server/pages/old/built.json'))),
      );
      const left = Number(
        /s-maxage=(\d+)/.exec((await visit(server as Server, '/')).headers.get('cache-control') ?? '')?.[1],
      );
      const age = (Date.now() - (await buildStartedAt('one'))) / 1000;
      assert.ok(
        Math.abs(left + age - 3600) < 5,
        `${left} seconds are left after ${age}: counted from the build's start`,
      );
      await visitAll(await fleet.start());
      for (const { name } of builtPages) assert.deepEqual(await fleet.renderings(name), [], name);
      assert.deepEqual(await itemsOf(table), []);
    },
    [15, 16],
  );

  onFleet(
    'a fallback shell of the build is served until its page is rendered',
    async ({ fleet }) => {
      const server = await fleet.start();
      const shell = await visit(server, '/shell/x');
      assert.match(shell.text, /loading/);
      // The browser asks for the data, which renders the page.
      assert.match((await visit(server, await dataOf('/shell/x'))).text, /"slug":"x"/);
      const other = await fleet.start();
      await until('the page is stored', async () => (await visit(other, '/shell/x')).at !== '');
      assert.equal((await fleet.renderings('shell/x')).length, 1);
    },
    [15, 16],
  );

  onFleet('a revalidation between build and boot is not lost, and one before the build is not repeated', async (s) => {
    const { fleet, table } = s;
    const startedAt = await buildStartedAt('one');
    const before = storeOn(table, { clock: new StoppedClock(startedAt - 120_000) });
    await before.purge([{ kind: 'tag', value: 'built-a' }], { hard: true });
    await storeOn(table).purge([{ kind: 'tag', value: 'built-b' }], { hard: true });
    await storeOn(table).purge([{ kind: 'tag', value: 'built-c' }]);
    const servers = await Promise.all([fleet.start(), fleet.start()]);
    for (const [slug, renderings] of [
      ['a', 0],
      ['b', 1],
      ['c', 1],
      ['d', 0],
    ] as const) {
      for (const server of servers) assert.equal((await visit(server, `/built/${slug}`)).status, 200);
      await until(`${slug} is rendered ${renderings} times`, async () => {
        const visits = await Promise.all(servers.map((server) => visit(server, `/built/${slug}`)));
        return visits.every((v) => v.cache === 'HIT' && Number(v.at) > startedAt);
      });
      assert.equal((await fleet.renderings(`built/${slug}`)).length, renderings, slug);
    }
  });

  onFleet('a page of the build is revalidated for all servers', async ({ fleet }) => {
    const [a, b] = await Promise.all([fleet.start(), fleet.start()]);
    const first = await visit(b, '/built/e');
    await fleet.revalidate(a, { tag: 'built-e' });
    const second = await visit(b, '/built/e');
    assert.notEqual(second.at, first.at);
    assert.equal((await visit(a, '/built/e')).at, second.at);
    await fleet.revalidate(b, { path: '/answers/built' });
    const answer = await visit(a, '/answers/built');
    assert.equal((await visit(b, '/answers/built')).headers.get('x-rendered'), answer.headers.get('x-rendered'));
    assert.equal((await fleet.renderings('answers/built')).length, 1);
    assert.equal((await fleet.renderings('built/e')).length, 1);
  });

  onFleet(
    'res.revalidate renders pages for all servers, also pages that did not exist',
    async ({ fleet }) => {
      const [a, b] = await Promise.all([fleet.start(), fleet.start()]);
      for (const [path, name] of [
        ['/old/kept', 'old/kept'],
        ['/old/absent', 'old/absent'],
        ['/old/new', 'old/new'],
      ] as const) {
        const first = await visit(b, path);
        assert.equal(first.status, path === '/old/absent' ? 404 : 200);
        const renderings = (await fleet.renderings(name)).length;
        assert.equal((await visit(a, `/api/demand?path=${path}`)).text, 'rendered');
        const second = await visit(b, path);
        assert.equal(second.status, 200);
        assert.notEqual(second.at, first.at);
        assert.equal((await visit(a, path)).at, second.at);
        assert.equal((await fleet.renderings(name)).length, renderings + 1, path);
      }
    },
    [15, 16],
  );

  onFleet('deployments on one table do not share pages', async ({ fleet }) => {
    const [one, two] = await Promise.all([fleet.start(), fleet.start({ SITE_DEPLOYMENT: 'two' })]);
    for (const path of ['/listed/deployed', '/old/deployed', '/built/a']) {
      const visits = [await visit(one, path), await visit(two, path)];
      assert.deepEqual(visits.map(deploymentOf), ['one', 'two'], path);
      assert.notEqual(visits[0]?.at, visits[1]?.at, path);
    }
  });

  onFleet('a rolling deployment of two builds under load', async ({ fleet }) => {
    const paths = ['/', '/built/a', '/built/none', '/old/built', '/answers/built', '/listed/rolling', '/old/rolling'];
    const servers: { server: Server; deployment: Deployment }[] = [];
    const start = async (deployment: Deployment) => {
      const server = await fleet.start({ SITE_DEPLOYMENT: deployment });
      servers.push({ server, deployment });
    };
    await Promise.all([start('one'), start('one')]);
    let over = false;
    let visits = 0;
    const visitor = async (n: number) => {
      for (let i = n; !over; i++) {
        const { server, deployment } = servers[i % servers.length] as (typeof servers)[number];
        const path = paths[i % paths.length] as string;
        // A server that leaves the load balancer is stopped once it has answered.
        const found = await visit(server, path);
        assert.equal(found.status, path === '/built/none' ? 404 : 200, path);
        if (path !== '/answers/built') assert.equal(deploymentOf(found), deployment, path);
        visits++;
      }
    };
    const load = Promise.all([0, 1, 2, 3].map(visitor));
    const passed = (count: number) => until(`${count} more visits`, () => visits >= count || over);
    await passed(40);
    for (let i = 0; i < 2; i++) {
      await start('two');
      await passed(visits + 40);
      const [old] = servers.splice(0, 1);
      await passed(visits + 40);
      await old?.server.kill();
    }
    over = true;
    await load;
    for (const { name } of builtPages) assert.deepEqual(await fleet.renderings(name), [], name);
    for (const name of ['listed/rolling', 'old/rolling'])
      assert.equal((await fleet.renderings(name)).length, 2, `${name}: once per deployment`);
  });
}

/** The deployment whose scripts a page loads. */
function deploymentOf({ text }: { text: string }): string {
  return /[?&]dpl=(\w+)/.exec(text)?.[1] ?? '';
}
