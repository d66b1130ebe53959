/** The handler in sites with a proxy (middleware), into which Next.js bundles it, and with other settings that move files and keys. */

import assert from 'node:assert/strict';
import { before, describe } from 'node:test';

import { missing, newStores, nextEngine, onEngine, type Pair, withOutput } from './fleets.js';
import { buildProxied, edgeSite, proxiedSite, until, visit } from './servers.js';

/** Defines a test with two servers of a site. */
function onSite(name: string, folder: string, body: (pair: Pair) => Promise<void>): void {
  onEngine(name, nextEngine(), async (engine, t) => {
    const { fleet } = await newStores(t, engine, folder);
    await withOutput(fleet, async () => {
      const [a, b] = await Promise.all([fleet.start(), fleet.start()]);
      await body({ two: [a, b], fleet });
    });
  });
}

/** Checks that two servers behind their proxies share a page, which one renders once. */
async function sharesPage({ two, fleet }: Pair, path: string, name: string, runtime: string): Promise<void> {
  const visits = await Promise.all([...two, ...two].map((server) => visit(server, path)));
  for (const { status, headers, at, text } of visits) {
    assert.equal(status, 200, text);
    assert.equal(headers.get('x-proxied'), runtime);
    assert.equal(at, visits[0]?.at);
  }
  assert.equal((await fleet.renderings(name)).length, 1, path);
}

/** Checks that a page is rendered again for both servers when its three seconds are over. */
async function regenerates({ two: [a, b] }: Pair, path: string): Promise<void> {
  const { at } = await visit(a, path);
  for (const server of [b, a]) await until(`${path} is new`, async () => (await visit(server, path)).at !== at);
}

describe('sites with a proxy', () => {
  before(async () => {
    if (!missing) await buildProxied();
  });

  onSite(
    'complaint: 500 on every request: a proxy on Node.js, with basePath, distDir and standalone (Turbopack)',
    proxiedSite,
    async (pair) => {
      const { two, fleet } = pair;
      const [a, b] = two;
      fleet.data.set('proxied', 'data');
      await sharesPage(pair, '/listed/proxied', 'listed/proxied', 'nodejs');
      await regenerates(pair, '/timed/proxied');
      const built = await visit(a, '/built/a');
      assert.equal((await visit(b, '/built/a')).at, built.at);
      assert.deepEqual(await fleet.renderings('built/a'), [], 'the page of the build is served');
      await fleet.revalidate(a, { tag: 'built-a' });
      const revalidated = await visit(b, '/built/a');
      assert.notEqual(revalidated.at, built.at);
      assert.equal((await visit(a, '/built/a')).at, revalidated.at);
      fleet.data.set('edge', 'data');
      for (const server of two) {
        const answer = await visit(server, `/edge?url=${fleet.dataUrl}/edge`);
        assert.deepEqual([answer.text, answer.headers.get('x-runtime')], ['data', 'edge']);
        const warnings = server.output().match(/ISR cache: .*/g) ?? [];
        assert.deepEqual(
          warnings.filter(
            (line) => !/gives it no build in the proxy \(middleware\) and in the edge runtime/.test(line),
          ),
          [],
        );
        assert.ok(warnings.length <= 1, server.output());
      }
    },
  );

  onSite('complaint: an edge middleware fails: with i18n (webpack)', edgeSite, async (pair) => {
    const { two, fleet } = pair;
    const [a, b] = two;
    for (const [prefix, locale] of [
      ['', 'en'],
      ['/de', 'de'],
    ] as const) {
      await sharesPage(pair, `${prefix}/old/proxied`, `${locale}/proxied`, 'edge');
      await regenerates(pair, `${prefix}/old/timed`);
      assert.equal((await visit(b, `${prefix}/old/proxied`)).shown, locale);
      const built = await visit(a, `${prefix}/old/built`);
      assert.equal(built.shown, locale);
      for (const server of two) assert.equal((await visit(server, `${prefix}/old/absent`)).status, 404);
      assert.deepEqual(await fleet.renderings(`${locale}/built`), [], 'the page of the build is served');
      assert.deepEqual(await fleet.renderings(`${locale}/absent`), []);
      assert.equal((await visit(a, `/api/demand?path=${prefix}/old/built`)).text, 'rendered');
      const next = await visit(b, `${prefix}/old/built`);
      assert.notEqual(next.at, built.at);
      assert.equal((await visit(a, `${prefix}/old/built`)).at, next.at);
    }
    assert.doesNotMatch(fleet.output(), /Error/);
  });
});
