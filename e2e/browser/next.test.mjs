// A Next.js site behind isr serve --preset next, in a browser. Client-side navigation
// fetches RSC payloads, which must never be served as pages.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cacheStatus, hydrated, need, openBrowser, openPage, serveISR, serveSite, stored } from './rig.mjs';

const isr = need('ISR_TEST_ISR', 'isr command');
const chromium = need('ISR_TEST_CHROMIUM', 'Chromium');
const site = need('ISR_TEST_NEXT', 'built Next.js site');
const skip = isr.skip || chromium.skip || site.skip;

async function visit(t, ...flags) {
  const address = await serveISR(t, isr.value, '--origin', await serveSite(t, site.value), '--preset', 'next', ...flags);
  const browser = await openBrowser(t, chromium.value);
  return { address, browser, ...await openPage(browser, { baseURL: address }) };
}

// record collects the responses with RSC payloads and their Cache-Status.
function record(page) {
  const payloads = [];
  page.on('response', (response) => {
    const headers = response.request().headers();
    if (!headers.rsc) return;
    payloads.push({ url: response.url(), headers, status: response.status(), type: response.headers()['content-type'], cacheStatus: cacheStatus(response) });
  });
  return payloads;
}

// openHome opens the home page, and waits until Next.js has prefetched the pages behind its links
// to articles.
async function openHome(page) {
  const prefetches = ['/articles/rye', '/articles/wheat'].map((path) => page.waitForResponse((response) =>
    new URL(response.url()).pathname === path && segment(response)?.endsWith('/__PAGE__')));
  const home = await page.goto('/');
  await Promise.all(prefetches);
  return home;
}

const segment = (response) => response.request().headers()['next-router-segment-prefetch'];

const heading = (page, text) => page.locator('h1', { hasText: text }).waitFor();

// follow clicks a link and checks that the navigation was client-side: a property set on
// window is still there.
async function follow(page, link, title, path) {
  await hydrated(page);
  await page.evaluate(() => { window.stayed = true; });
  await page.click(`nav >> text=${link}`);
  await heading(page, title);
  assert.equal(new URL(page.url()).pathname, path);
  assert.equal(await page.evaluate(() => window.stayed), true, `${link}: the whole page was loaded`);
}

describe('next', { concurrency: 2 }, () => {
  test('links, back, forward and reload work', { skip }, async (t) => {
    const { page, problems } = await visit(t);
    const payloads = record(page);
    assert.match(cacheStatus(await page.goto('/')), /^isr; fwd=miss; .*stored/);
    await heading(page, 'Home');
    assert.ok(await page.locator('img[alt="A cloth"]').evaluate((img) => img.decode().then(() => img.naturalWidth > 0)));

    await follow(page, 'Rye', 'Rye', '/articles/rye');
    assert.match(await page.textContent('main'), /Dense, dark, and better on the second day\./);
    await page.goBack();
    await heading(page, 'Home');
    assert.equal(await page.evaluate(() => window.stayed), true, 'back: the whole page was loaded');
    await page.goForward();
    await heading(page, 'Rye');

    const reloaded = await page.reload();
    assert.match(reloaded.headers()['content-type'], /^text\/html/);
    await heading(page, 'Rye');
    await follow(page, 'Wheat', 'Wheat', '/articles/wheat');

    assert.ok(payloads.length > 0, 'no payload was requested');
    for (const payload of payloads) {
      assert.equal(payload.status, 200, JSON.stringify(payload));
      assert.equal(payload.type, 'text/x-component', JSON.stringify(payload));
      assert.match(payload.cacheStatus, /^isr; /, JSON.stringify(payload));
    }
    assert.deepEqual(problems, []);
  });

  test('the second visitor gets pages and payloads from the cache', { skip }, async (t) => {
    const { page, problems, browser, address } = await visit(t);
    const first = record(page);
    await openHome(page);
    await stored(address);
    for (const { url, headers } of first) await stored(url, headers);
    const other = await openPage(browser, { baseURL: address });
    const payloads = record(other.page);
    assert.match(cacheStatus(await openHome(other.page)), /^isr; hit/);
    for (const payload of payloads) assert.match(payload.cacheStatus, /^isr; hit/, JSON.stringify(payload));
    await follow(other.page, 'Wheat', 'Wheat', '/articles/wheat');
    assert.deepEqual([...problems, ...other.problems], []);
  });

  test('a dynamic page is rendered per request, by client-side navigation and by load', { skip }, async (t) => {
    const { page, problems, address } = await visit(t);
    await page.context().addCookies([{ name: 'name', value: 'Ann', url: address }]);
    await page.goto('/');
    await follow(page, 'Now', 'Now', '/now');
    assert.equal(await page.textContent('#name'), 'Ann');
    const before = await page.textContent('#rendered');
    assert.match(cacheStatus(await page.reload()), /^isr; fwd=bypass; /);
    assert.equal(await page.textContent('#name'), 'Ann');
    assert.ok(await page.textContent('#rendered') > before);
    assert.deepEqual(problems, []);
  });
});
