/** Tests of real Next.js servers behind `isr serve --preset next`: what is revalidated in Next.js reaches its visitors. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type TestContext, test } from 'node:test';

import { isOn, newStores, nextEngine, onEngine, type Releases, type Stores, withOutput } from './fleets.js';
import { type Gateway, noIsr, startGateway, token } from './gateways.js';
import { isNext15, requestRevalidation, type Server, until, type Visit, visit } from './servers.js';

/** How the pages of Next.js are kept, and how its revalidations reach the gateway. */
const ways = ['own', 'table'] as const;
type Way = (typeof ways)[number];

/** A gateway with a Next.js server behind it. */
interface Behind {
  gateway: Gateway;
  start(environment?: Record<string, string>): Promise<Server>;
}

function onGateway(
  name: string,
  way: Way,
  body: (behind: Behind, stores: Stores, t: TestContext) => Promise<void>,
  releases: Releases = [16],
) {
  if (!isOn(releases)) return;
  if (noIsr) {
    test(name, { skip: noIsr });
    return;
  }
  onEngine(`${name}, pages: ${way}`, nextEngine(), async (engine, t) => {
    const stores = await newStores(t, engine);
    await withOutput(stores.fleet, async () => {
      const gateway = await startGateway(t, 'http://127.0.0.1:1', way === 'table' ? stores : undefined);
      // With the table the handler finds its own way to the gateway.
      const admin = way === 'table' ? {} : { ISR_ADMIN_URL: gateway.adminUrl, ISR_ADMIN_TOKEN: token };
      // Only the test of deployments waits for the end of one.
      const behind = { SITE_BEHIND: way, SITE_DRAIN_SECONDS: '3600', ...admin };
      const start = (environment = {}) => stores.fleet.start({ ...behind, ...environment });
      await body({ gateway, start }, stores, t).catch((error: Error) => {
        throw new Error(`${error.message}\nisr serve printed:\n${gateway.output().slice(-4000)}`, { cause: error });
      });
    });
  });
}

/** Defines the tests; they belong to the suite of the site, whose builds they share. */
export function behindTests(): void {
  for (const way of ways) {
    onGateway('revalidations in Next.js reach the pages of the gateway', way, revalidations, [15, 16]);

    onGateway('a profile, res.revalidate and route handlers reach the gateway', way, async ({ gateway, start }) => {
      const server = await start();
      gateway.moveTo(server.url);
      const first = await isHit('before the profile', () => visit(gateway, '/built/b'));
      await requestRevalidation(server, { tag: 'built-b', profile: 'max' });
      // Next.js first answers with the old page, which must not be kept as a new one.
      await until('the profile reaches the page', async () => (await visit(gateway, '/built/b')).at !== first.at);
      const answer = () => visit(gateway, '/answers/built');
      const made = (await isHit('a route handler', answer)).headers.get('x-rendered');
      await requestRevalidation(server, { path: '/answers/built' });
      await until('the answer is new', async () => (await answer()).headers.get('x-rendered') !== made);
      // The responses of the pages router name no tags.
      for (const path of ['/old/kept', '/_next/data/build-TfctsWXpff2fKS/old/kept.json']) {
        const old = await isHit(path, () => visit(gateway, path));
        assert.equal((await visit(server, '/api/demand?path=/old/kept')).text, 'rendered');
        await until(`res.revalidate reaches ${path}`, async () => (await visit(gateway, path)).text !== old.text);
      }
    });

    onGateway('a deployment reaches the gateway, also the pages of the old build that come late', way, async (b) => {
      const { gateway, start } = b;
      const old = await start();
      gateway.moveTo(old.url);
      await until('the old build is announced', () => isDeployed(gateway, old, 'one'));
      await isHit('the old build', () => visit(gateway, '/built/a'));
      const next = await start({ SITE_DEPLOYMENT: 'two', SITE_DRAIN_SECONDS: '20' });
      await until('the new build is announced', () => isDeployed(gateway, next, 'two'));
      // The old build still answers while the new one begins: what it makes is stored as new.
      const late = await isHit('the old build once more', () => visit(gateway, '/built/a'));
      assert.equal(deploymentOf(late), 'one');
      gateway.moveTo(next.url);
      await old.kill();
      await until('the new build', async () => deploymentOf(await visit(gateway, '/built/a')) === 'two');
      await isHit('the new build', () => visit(gateway, '/built/a'));
    });
  }
}

async function revalidations({ gateway, start }: Behind, { fleet }: Stores): Promise<void> {
  const server = await start();
  gateway.moveTo(server.url);
  const ofRelease = isNext15 ? (['page', 'payload'] as const) : (['page', 'payload', 'segment'] as const);
  for (const kind of ofRelease) {
    const at = (path: string) => ask(gateway, path, kind);
    for (const [what, revalidate] of [
      ['revalidateTag', { tag: 'list-x' }],
      ['revalidatePath', { path: '/listed/x' }],
      ['revalidatePath of a layout', { path: '/listed', type: 'layout' }],
      ['revalidatePath of a route', { path: '/listed/[slug]', type: 'page' }],
      ['updateTag', undefined],
    ] as const) {
      if (isNext15 && !revalidate) continue; // Next.js 16 has brought updateTag
      await isHit(`${what}, ${kind}`, () => at('/listed/x'));
      await isHit(`${what}, ${kind}, another page`, () => at('/built/a'));
      const before = await at('/listed/x');
      fleet.data.set('x', `${what} of the ${kind}`);
      if (revalidate) await requestRevalidation(server, revalidate);
      else await updateTag(server, 'list-x');
      // In a route handler Next.js answers before it revalidates.
      await until(`${what} reaches the ${kind}`, async () => !(await at('/listed/x')).bytes.equals(before.bytes));
      assert.match((await at('/listed/x')).text, new RegExp(`${what} of the ${kind}`));
      const kept = (await at('/built/a')).headers.get('cache-status') ?? '';
      assert.match(kept, isFresh, `${what}: another page is kept`);
    }
  }
}

/** What a browser asks for of a page: the page, its payload, and a segment of that, for a link. */
const requests = {
  page: {},
  payload: { rsc: '1' },
  segment: { rsc: '1', 'next-router-prefetch': '1', 'next-router-segment-prefetch': '/_full' },
};

function ask(server: Server, path: string, kind: keyof typeof requests): Promise<Visit> {
  const headers: Record<string, string> = { ...requests[kind] };
  if (kind === 'page') return visit(server, path);
  // The router sends a hash of the headers; Next.js refuses another.
  const parts = ['next-router-prefetch', 'next-router-segment-prefetch'].map((name) => headers[name] ?? '0');
  const sum = createHash('sha256')
    .update([...parts, '0', '0'].join(','))
    .digest('base64url')
    .slice(0, 16);
  return visit(server, kind === 'payload' ? `${path}?_rsc` : `${path}?_rsc=${sum}`, { headers });
}

/** The Cache-Status of a page of the gateway that is neither stale nor about to be. */
const isFresh = /^isr; hit; ttl=[1-9]\d+$/;

/** Visits a page until it comes from the gateway's store, fresh, twice the same. */
async function isHit(what: string, ask: () => Promise<Visit>): Promise<Visit> {
  let found = await ask();
  await until(`${what} is a hit`, async () => {
    found = await ask();
    assert.equal(found.status, 200, `${what}: ${found.text.slice(0, 500)}`);
    return isFresh.test(found.headers.get('cache-status') ?? '');
  });
  return found;
}

/** Posts the form of the page /acted, whose action calls updateTag, as a browser without scripts does. */
async function updateTag(server: Server, tag: string): Promise<void> {
  const id = /name="(\$ACTION_ID_[^"]+)"/.exec((await visit(server, '/acted')).text)?.[1];
  assert.ok(id, 'the page has a form');
  const body = new FormData();
  body.set(id, '');
  body.set('tag', tag);
  assert.equal((await visit(server, '/acted', { method: 'POST', body })).status, 200);
}

/** Visits a server, and reports whether the gateway knows its build. */
async function isDeployed(gateway: Gateway, server: Server, build: string): Promise<boolean> {
  await visit(server, '/built/c'); // a health check
  const answer = await fetch(`${gateway.adminUrl}/-/purges/tag?tag=_N_T_:build:${build}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  return ((await answer.json()) as { seq: number }).seq > 0;
}

/** The deployment whose scripts a page loads. */
function deploymentOf({ text }: Visit): string {
  return /[?&]dpl=(\w+)/.exec(text)?.[1] ?? '';
}
