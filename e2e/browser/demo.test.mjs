// The demonstration site in a browser.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cacheStatus, need, openBrowser, openPage, serveISR } from './rig.mjs';

const isr = need('ISR_TEST_ISR', 'isr command');
const chromium = need('ISR_TEST_CHROMIUM', 'Chromium');
const skip = isr.skip || chromium.skip;

const paths = ['/', '/stories', '/stories?page=2', '/order', '/unreliable', '/oven', '/about', '/nothing'];

async function visit(t, options) {
  const address = await serveISR(t, isr.value, '--demo');
  const browser = await openBrowser(t, chromium.value);
  return { address, browser, ...await openPage(browser, { baseURL: address, ...options }) };
}

// newest returns the badge and the text of the first row of the panel's table.
async function newest(page) {
  const row = page.locator('#log tr').first();
  return { badge: await row.locator('.badge').textContent(), text: await row.locator('td').last().textContent() };
}

// askOnce presses the button and waits for the new row.
async function askOnce(page) {
  const rows = await page.locator('#log tr').count();
  await page.click('#ask-once');
  await page.locator('#log tr').nth(rows).waitFor();
  return newest(page);
}

// Concurrent, since the tests mostly wait for pages to age.
describe('demo', { concurrency: 3 }, () => {
  test('the panel explains a miss, a hit, a stale page and the next render', { skip }, async (t) => {
    const { page, problems } = await visit(t);
    const first = await page.goto('/');
    assert.match(cacheStatus(first), /^isr; fwd=miss; fwd-status=200; stored/);
    await page.locator('#log .badge.miss').waitFor();
    assert.match(await page.textContent('#verdict'), /^You waited .* this page was rendered while you waited\.$/);

    const hit = await askOnce(page);
    assert.equal(hit.badge, 'HIT');
    assert.match(hit.text, /^Served from the cache in .*fresh for .*Cache-Status: isr; hit; ttl=\d/);

    await page.click('#ask-often');
    const stale = page.locator('#log tr', { has: page.locator('.badge.stale') }).first();
    await stale.waitFor();
    assert.match(await stale.textContent(), /STALE.*past its freshness.*A new render runs.*detail=stale/s);
    await page.locator('#log tr', { hasText: 'no. 2' }).first().waitFor();
    await page.click('#ask-often');
    assert.equal((await newest(page)).badge, 'HIT');

    await page.reload();
    assert.match(await page.textContent('#slip'), /Render no\. 2 of this page/);
    assert.deepEqual(problems, []);
  });

  test('the panel explains a miss of its own request', { skip }, async (t) => {
    const { page, problems } = await visit(t);
    await page.goto('/stories');
    // The panel requests the current address, which is not cached yet.
    await page.evaluate(() => history.replaceState(null, '', '/stories?page=2'));
    assert.equal((await askOnce(page)).badge, 'MISS');
    assert.equal((await askOnce(page)).badge, 'HIT');
    assert.deepEqual(problems, []);
  });

  test('the personal page is a bypass and counts per visitor', { skip }, async (t) => {
    const { page, problems, browser, address } = await visit(t);
    assert.match(cacheStatus(await page.goto('/order')), /^isr; fwd=miss; .*detail=set-cookie$/);
    for (const times of [2, 3]) {
      assert.match(cacheStatus(await page.reload()), /^isr; fwd=bypass; .*detail=cookie$/);
      assert.match(await page.textContent('main'), new RegExp(`You have asked ${times} times\\.`));
    }
    const bypass = await askOnce(page);
    assert.equal(bypass.badge, 'BYPASS');
    assert.match(bypass.text, /a cookie that the cache does not know/);

    const other = await openPage(browser, { baseURL: address });
    await other.page.goto('/order');
    assert.match(await other.page.textContent('main'), /This is the first time you have asked\./);
    assert.deepEqual([...problems, ...other.problems], []);
  });

  test('a broken oven: the last good copy is served', { skip }, async (t) => {
    const { page, problems } = await visit(t);
    await page.goto('/unreliable');
    await page.goto('/oven');
    await page.click('button[value=broken]');
    await page.waitForLoadState();
    await page.goto('/unreliable');
    await page.click('#ask-often');
    const stale = page.locator('#log tr', { hasText: 'The site failed' }).first();
    await stale.waitFor();
    assert.match(await stale.textContent(), /STALE.*The site failed.*detail=stale-if-error/s);
    assert.deepEqual(problems, []);
  });

  test('no page scrolls horizontally on a phone', { skip }, async (t) => {
    const { page, problems } = await visit(t, { viewport: { width: 320, height: 640 }, isMobile: true, hasTouch: true });
    for (const path of paths) {
      await page.goto(path);
      if (await page.locator('#ask-once').count() > 0) await askOnce(page);
      const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(content <= screen, `${path} is ${content} px wide on a screen of ${screen} px`);
    }
    assert.deepEqual(problems.filter((problem) => !/status of 404 .*\/nothing\)$/.test(problem)), []);
  });
});
