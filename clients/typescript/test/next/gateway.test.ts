/** The handler behind `isr serve`: what it purges, on a real server that may be away, and what it names in responses. */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { inspect } from 'node:util';

import type { CacheHandler, CacheHandlerClass, Value } from '../../src/next/contract.js';
import type { GatewayOptions } from '../../src/next/gateway/gateway.js';
import { behindGateway, register } from '../../src/next/gateway/index.js';
import { publicTags } from '../../src/next/gateway/paths.js';
import { addTags } from '../../src/next/gateway/tags.js';
import { createCacheHandler } from '../../src/next/index.js';
import { newBuild } from './builds.js';
import { newProxy } from './fleets.js';
import { type Gateway, noIsr, startGateway, token } from './gateways.js';
import { until } from './servers.js';

/** Keeps nothing. */
class Nothing implements CacheHandler {
  async get(): Promise<null> {
    return null;
  }
  async set(): Promise<void> {}
  async revalidateTag(): Promise<void> {}
  resetRequestCache(): void {}
}

/** A gateway, a way to it that can be cut, and a handler class of a build behind it. */
async function setting(t: TestContext, options: GatewayOptions = {}, buildId = 'one') {
  const gateway = await startGateway(t, 'http://127.0.0.1:1');
  const proxy = await newProxy(t, gateway.adminUrl);
  const serverDistDir = await builtSite(t, buildId);
  const warnings: string[] = [];
  const given = {
    handler: Nothing as CacheHandlerClass,
    adminUrl: proxy.url,
    token,
    waitSeconds: 60,
    warn: (message: string, details: object) => void warnings.push(`${message}: ${inspect(details)}`),
    ...options,
  };
  const start = (dir: string = serverDistDir) => new (behindGateway(given))({ serverDistDir: dir });
  return { gateway, proxy, serverDistDir, given, warnings, start };
}

async function builtSite(t: TestContext, buildId: string, routes: object = {}): Promise<string> {
  const serverDistDir = await newBuild(t);
  await writeFile(join(dirname(serverDistDir), 'BUILD_ID'), `${buildId}\n`);
  await writeFile(join(dirname(serverDistDir), 'routes-manifest.json'), JSON.stringify(routes));
  return serverDistDir;
}

/** The sequence of the newest purge of a tag at a gateway, 0 if there was none; below, of the newest hard one. */
async function purgeOf({ adminUrl }: Gateway, tag: string): Promise<{ seq: number; hard_seq: number }> {
  const answer = await fetch(`${adminUrl}/-/purges/tag?${new URLSearchParams({ tag })}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  assert.equal(answer.status, 200);
  return (await answer.json()) as { seq: number; hard_seq: number };
}

const page = (tags: string[], headers: object = {}): Value => ({
  kind: 'APP_PAGE',
  headers: { 'x-next-cache-tags': tags.join(','), ...headers },
});

test('tags of paths are made of the public paths of their pages', () => {
  const plain = { basePath: '', locales: [], defaultLocale: undefined };
  const i18n = { basePath: '/shop', locales: ['en', 'de'], defaultLocale: 'en' };
  for (const [of, tag, want] of [
    [plain, 'product-7', 'product-7'],
    [plain, 'Préis, a', 'Pr%C3%A9is a'],
    [plain, '_N_T_/', '_N_T_/'],
    [plain, '_N_T_/blog', '_N_T_/blog'],
    [plain, '_N_T_/layout', '_N_T_/layout'],
    [plain, '_N_T_/blog/layout', '_N_T_/blog/layout'],
    [plain, '_N_T_/blog/[slug]', '_N_T_/blog/[slug] _N_T_/blog/layout'],
    [plain, '_N_T_/blog/[slug]/page', '_N_T_/blog/[slug]/page _N_T_/blog/layout'],
    [plain, '_N_T_/[...all]/page', '_N_T_/[...all]/page _N_T_/layout'],
    [plain, '_N_T_/(shop)/blog/page', '_N_T_/(shop)/blog/page _N_T_/blog/page'],
    [plain, '_N_T_/(shop)/@side/blog/layout', '_N_T_/(shop)/@side/blog/layout _N_T_/blog/layout'],
    [plain, '_N_T_/feed/(.)photo/page', '_N_T_/feed/(.)photo/page _N_T_/feed/layout'],
    [plain, `_N_T_/${'a/'.repeat(20)}layout`, `_N_T_/${'a/'.repeat(20)}layout _N_T_/${'a/'.repeat(16)}layout`],
    [plain, `_N_T_/${'a'.repeat(1100)}`, ''],
    [i18n, '_N_T_/', '_N_T_/ _N_T_/shop _N_T_/shop/en _N_T_/shop/de'],
    [i18n, '_N_T_/blog', '_N_T_/blog _N_T_/shop/blog _N_T_/shop/en/blog _N_T_/shop/de/blog'],
    [i18n, '_N_T_/en/blog', '_N_T_/en/blog _N_T_/shop/en/blog _N_T_/shop/blog'],
    [i18n, '_N_T_/de/blog', '_N_T_/de/blog _N_T_/shop/de/blog'],
    [i18n, '_N_T_/layout', '_N_T_/layout _N_T_/shop/layout _N_T_/shop/en/layout _N_T_/shop/de/layout'],
    [i18n, 'product-7', 'product-7'],
  ] as const) {
    assert.equal(publicTags(tag, of).join(' '), want, tag);
  }
});

test('responses name the tags of their pages, in bounded space, beside the tags of the site', () => {
  for (const [value, want] of [
    [page(['a', '_N_T_/layout']), 'a,_N_T_/layout'],
    [page(['a', 'a', '', ' Tür']), 'a,T%C3%BCr'],
    [page(['a'], { 'cache-tag': 'own' }), 'own,a'],
    [page(['a'], { 'Cache-Tag': ['own', 'b'] }), 'own,b,a'],
    [page(Array.from({ length: 4500 }, (_, i) => `product-${i}`)), '_N_T_:many'],
    [page([]), undefined],
    [{ kind: 'APP_PAGE' }, undefined],
  ] as [Value, string | undefined][]) {
    for (const _ of [1, 2]) addTags(value); // a page in memory is answered more than once
    const headers = Object.entries((value?.['headers'] ?? {}) as object);
    assert.equal(headers.find(([name]) => name.toLowerCase() === 'cache-tag')?.[1], want);
  }
});

test('purges that do not arrive are errors, and are sent again until they do', { skip: noIsr ?? false }, async (t) => {
  const { gateway, proxy, start, warnings } = await setting(t, { waitSeconds: 0.5 });
  const handler = start();
  await until('the build is announced', async () => (await purgeOf(gateway, '_N_T_:build:one')).seq > 0);
  for (const fail of [proxy.cut, proxy.hang]) {
    fail();
    const tags = ['a', '_N_T_/blog/[slug]/page'];
    const refused = /has not confirmed the purge of a, .* within 500 ms; .* It is kept, and sent again .*ISR_ADMIN_URL/;
    await assert.rejects(handler.revalidateTag(tags), refused);
    await assert.rejects(handler.revalidateTag('a', { expire: 60 }), /purge of a, _N_T_:many/);
    const before = (await purgeOf(gateway, 'a')).hard_seq;
    proxy.restore();
    await until('the purge arrives', async () => (await purgeOf(gateway, 'a')).hard_seq > before);
    await until('all of it', async () => (await purgeOf(gateway, '_N_T_/blog/layout')).hard_seq > before);
  }
  assert.ok(
    warnings.some((line) => line.includes('isr serve was not purged, and is asked again')),
    warnings.join('\n'),
  );
});

test('revalidations without durations are hard, with a profile soft', { skip: noIsr ?? false }, async (t) => {
  const { gateway, start } = await setting(t);
  const handler = start();
  for (const [tag, durations, isHard] of [
    ['a', undefined, true],
    ['b', { expire: 0 }, true],
    ['c', { expire: 31_536_000 }, false],
    ['d', {}, false],
  ] as const) {
    await handler.revalidateTag(tag, durations);
    const { seq, hard_seq } = await purgeOf(gateway, tag);
    assert.ok(seq > 0);
    assert.equal(hard_seq === seq, isHard, tag);
    assert.ok((await purgeOf(gateway, '_N_T_:many')).seq >= seq, 'pages with too many tags are purged too');
  }
});

test('so many purges that they do not fit into memory become one of all pages', { skip: noIsr ?? false }, async (t) => {
  const { gateway, proxy, start } = await setting(t, { waitSeconds: 0.1 });
  const handler = start();
  await until('the build is announced', async () => (await purgeOf(gateway, '_N_T_:build:one')).seq > 0);
  proxy.cut();
  const refused: Promise<void>[] = [];
  for (let n = 0; n < 110; n++) {
    const tags = Array.from({ length: 100 }, (_, i) => `tag-${n}-${i}`);
    refused.push(assert.rejects(handler.revalidateTag(tags), /has not confirmed/));
  }
  await Promise.all(refused);
  assert.equal((await purgeOf(gateway, '_N_T_:deployment')).hard_seq, 0);
  proxy.restore();
  await until('all pages are purged', async () => (await purgeOf(gateway, '_N_T_:deployment')).hard_seq > 0);
});

test('each build is announced once, also one that was deployed before', { skip: noIsr ?? false }, async (t) => {
  const { gateway, serverDistDir, start, given } = await setting(t);
  const two = await builtSite(t, 'two');
  let last = 0;
  for (const [buildId, dir] of [
    ['one', serverDistDir],
    ['two', two],
    ['one', serverDistDir],
  ] as const) {
    start(dir);
    await until(`${buildId} is announced`, async () => (await purgeOf(gateway, `_N_T_:build:${buildId}`)).seq > last);
    last = (await purgeOf(gateway, '_N_T_:deployment')).seq;
    assert.equal((await purgeOf(gateway, `_N_T_:build:${buildId}`)).seq, last);
  }
  const once = start();
  await once.revalidateTag('a');
  register({ ...given, distDir: dirname(serverDistDir) });
  await once.revalidateTag('a');
  assert.equal((await purgeOf(gateway, '_N_T_:deployment')).seq, last, 'a second process of a build purges nothing');
  register({ ...given, distDir: dirname(two) });
  await until('a process that is asked for no page is announced', async () => {
    return (await purgeOf(gateway, '_N_T_:deployment')).seq > last;
  });
});

test('res.revalidate purges the path of the page', { skip: noIsr ?? false }, async (t) => {
  const { gateway, given, serverDistDir } = await setting(t);
  const Handler = behindGateway(given);
  const headers = { 'x-prerender-revalidate': 'secret' }; // the secret of newBuild
  const handler = new Handler({ serverDistDir, _requestHeaders: headers });
  const key = `/route-cache/PAGES/${'0'.repeat(64)}/$`;
  await handler.set(`${key}/old/kept`, { kind: 'PAGES' }, {});
  assert.ok((await purgeOf(gateway, '_N_T_/old/kept')).hard_seq > 0);
  await handler.set(`${key}/index`, { kind: 'PAGES' }, {});
  assert.ok((await purgeOf(gateway, '_N_T_/')).hard_seq > 0);
  const visitor = new Handler({ serverDistDir, _requestHeaders: { 'x-prerender-revalidate': 'guess' } });
  await visitor.set(`${key}/other`, { kind: 'PAGES' }, {});
  assert.equal((await purgeOf(gateway, '_N_T_/other')).seq, 0);
});

test('without a configuration pages are served, and revalidations are errors that name the remedy', async (t) => {
  const serverDistDir = await builtSite(t, 'one');
  const empty = dirname(dirname(serverDistDir));
  for (const [options, dir, want] of [
    [{ token: '' }, serverDistDir, /ISR_ADMIN_TOKEN is missing: set it to the token of isr serve/],
    [{ adminUrl: '127.0.0.1:9180' }, serverDistDir, /set ISR_ADMIN_URL, or adminUrl, to one such as http:/],
    [{ waitSeconds: 0 }, serverDistDir, /waitSeconds must be above 0/],
    [{}, empty, /routes-manifest.json cannot be read: expected a Next.js build/],
  ] as [GatewayOptions, string, RegExp][]) {
    const warnings: string[] = [];
    const warn = (message: string) => void warnings.push(message);
    const Handler = behindGateway({ handler: Nothing, adminUrl: 'http://127.0.0.1:1', token, warn, ...options });
    const handler = new Handler({ serverDistDir: dir });
    new Handler({ serverDistDir: dir });
    assert.equal(await handler.get('/a', { kind: 'APP_PAGE' }), null);
    await handler.set('/a', page(['a']), {});
    await assert.rejects(handler.revalidateTag('a'), want);
    assert.equal(warnings.length, 1, warnings.join('\n'));
    assert.match(warnings[0] ?? '', want);
  }
});

test('where Next.js has no files, such as a proxy, nothing happens', async () => {
  for (const options of [{}, { handler: Nothing }]) {
    const Handler = behindGateway({ ...options, token: '' });
    for (const ctx of [{}, { dev: true }]) {
      const handler = new Handler(ctx);
      assert.equal(await handler.get('/a', { kind: 'APP_PAGE' }), null);
      await handler.set('/a', page(['a']), {});
      await handler.revalidateTag('a');
      handler.resetRequestCache();
    }
  }
});

test('a handler of createCacheHandler behind a gateway is refused in cacheHandlers, too', () => {
  const Handler = behindGateway({ handler: createCacheHandler() });
  assert.throws(() => 'updateTags' in Handler, /set cacheHandler, in the singular/);
});
