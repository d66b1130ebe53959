/** Tests of look-ups that Next.js does not follow with a value to store: no other server waits for one. */

import assert from 'node:assert/strict';

import { onFleet } from './fleets.js';
import { type Fleet, type Server, until, visit } from './servers.js';

/** Longer than a visit waits for an answer: a visit that waits for a lease that is not released fails. */
const patient = { SITE_WAIT_SECONDS: '600', SITE_RENDER_SECONDS: '900', SITE_LEASE_SECONDS: '600' };

async function startTwo(fleet: Fleet): Promise<[Server, Server]> {
  return Promise.all([fleet.start(patient), fleet.start(patient)]);
}

/** Visits a page at a server while it is rendered, and waits until a rendering more has begun. */
async function begin(fleet: Fleet, server: Server, name: string): Promise<{ answer: ReturnType<typeof visit> }> {
  const before = (await fleet.renderings(name)).length;
  const answer = visit(server, `/${name}`);
  await until(`a rendering of ${name}`, async () => (await fleet.renderings(name)).length > before);
  return { answer };
}

/** Defines the tests; they belong to the suite of the site, whose builds they share. */
export function failureTests(): void {
  for (const [router, name] of [
    ['app', 'listed/failing'],
    ['pages', 'old/failing'],
    ['route handler', 'answers/failing'],
  ] as const) {
    onFleet(`no server waits for a render that has failed: ${router}`, async ({ fleet }) => {
      const [a, b] = await startTwo(fleet);
      await fleet.fail(name, true);
      // The first visits of two processes, which have not listened to Node.js yet, and the next ones.
      for (const server of [a, b, a, b]) assert.equal((await visit(server, `/${name}`)).status, 500);
      assert.equal((await fleet.renderings(name)).length, 4);
      // Visits that wait while it fails render it themselves, at the same time.
      await fleet.gate(name, true);
      const first = await begin(fleet, a, name);
      const waiting = Array.from({ length: 4 }, () => visit(b, `/${name}`));
      await fleet.gate(name, false);
      for (const { status } of await Promise.all([first.answer, ...waiting])) assert.equal(status, 500);
      await fleet.fail(name, false);
      assert.equal((await visit(b, `/${name}`)).status, 200);
      const renderings = (await fleet.renderings(name)).length;
      await until('it is stored', async () => (await visit(a, `/${name}`)).cache === 'HIT');
      assert.ok((await fleet.renderings(name)).length <= renderings + 1);
    });
  }

  onFleet(
    'a visitor who leaves during a render neither ends its lease nor keeps it when it fails',
    async ({ fleet }) => {
      const [a, b] = await startTwo(fleet);
      const name = 'listed/left';
      for (const fails of [false, true]) {
        for (const warm of [a, b]) await visit(warm, '/listed/warm');
        const page = `${name}-${fails}`;
        await fleet.fail(page, fails);
        await fleet.gate(page, true);
        const leaving = new AbortController();
        const left = visit(a, `/${page}`, { signal: leaving.signal }).catch(() => undefined);
        await until('it is rendered', async () => (await fleet.renderings(page)).length === 1);
        leaving.abort();
        await left;
        const waiting = visit(b, `/${page}`);
        await new Promise((resolve) => setTimeout(resolve, 3000));
        assert.equal((await fleet.renderings(page)).length, 1, 'the lease is held while Next.js renders');
        await fleet.gate(page, false);
        assert.equal((await waiting).status, fails ? 500 : 200);
        assert.equal((await fleet.renderings(page)).length, fails ? 2 : 1);
      }
    },
  );

  onFleet('a slow page is rendered once by two servers, although they have just started', async ({ fleet }) => {
    const [a, b] = await startTwo(fleet);
    for (const name of ['listed/slow', 'old/slow', 'answers/slow']) {
      await fleet.gate(name, true);
      const first = await begin(fleet, a, name);
      const waiting = [a, b, b].map((server) => visit(server, `/${name}`));
      await new Promise((resolve) => setTimeout(resolve, 10_000));
      assert.equal((await fleet.renderings(name)).length, 1, name);
      await fleet.gate(name, false);
      const visits = await Promise.all([first.answer, ...waiting]);
      for (const { status } of visits) assert.equal(status, 200, name);
      assert.equal((await fleet.renderings(name)).length, 1, name);
    }
  });

  onFleet('a fallback shell keeps no lease', async ({ fleet }) => {
    const [a, b] = await startTwo(fleet);
    for (const slug of ['first', 'second']) {
      for (const server of [a, b]) assert.match((await visit(server, `/shell/${slug}`)).text, /loading/);
      const data = `/_next/data/build-TfctsWXpff2fKS/shell/${slug}.json`;
      const visits = await Promise.all([b, a, b].map((server) => visit(server, data)));
      for (const { text } of visits) assert.match(text, new RegExp(`"slug":"${slug}"`));
      assert.equal((await fleet.renderings(`shell/${slug}`)).length, 1, slug);
    }
  });

  onFleet('res.revalidate of a page that must exist renders no other page, and leaves no lease', async ({ fleet }) => {
    const [a, b] = await startTwo(fleet);
    const demand = (server: Server) => visit(server, '/api/demand?path=/old/only&only=1');
    assert.equal((await demand(a)).text, 'rendered');
    assert.equal((await demand(a)).text, 'rendered');
    assert.equal((await fleet.renderings('old/only')).length, 0);
    const first = await visit(b, '/old/only');
    assert.equal(first.status, 200);
    assert.equal((await demand(a)).text, 'rendered');
    assert.notEqual((await visit(b, '/old/only')).at, first.at);
    assert.equal((await fleet.renderings('old/only')).length, 2);
    // A page that is purged exists.
    await fleet.revalidate(b, { path: '/old/only' });
    assert.equal((await demand(a)).text, 'rendered');
    assert.equal((await fleet.renderings('old/only')).length, 3);
    assert.equal((await visit(b, '/old/only')).cache, 'HIT');
  });
}
