// The demonstration site, as a newcomer sees it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { need, openBrowser, openPage, said, serveISR } from './rig.mjs';

const isr = need('ISR_TEST_ISR', 'isr command');
const chromium = need('ISR_TEST_CHROMIUM', 'Chromium');
const skip = isr.skip || chromium.skip;

const paths = ['/', '/stories', '/stories?page=2', '/order', '/unreliable', '/oven', '/about', '/nothing'];

async function visit(t, options) {
  const address = await serveISR(t, isr.value, '--demo');
  const browser = await openBrowser(t, chromium.value);
  return { address, browser, ...await openPage(browser, { baseURL: address, ...options }) };
}

// newest is the upper row of the panel's table: its badge and its words.
async function newest(page) {
  const row = page.locator('#log tr').first();
  return { badge: await row.locator('.badge').textContent(), words: await row.locator('td').last().textContent() };
}

// askOnce presses the button and waits for its row.
async function askOnce(page) {
  const rows = await page.locator('#log tr').count();
  await page.click('#ask-once');
  await page.locator('#log tr').nth(rows).waitFor();
  return newest(page);
}

// Most of the time they wait for a page to age.
describe('demo', { concurrency: 3 }, () => {
  test('the panel explains a miss, a hit, a stale page and the next render', { skip }, async (t) => {
    const { page, troubles } = await visit(t);
    const first = await page.goto('/');
    assert.match(said(first), /^isr; fwd=miss; fwd-status=200; stored/);
    await page.locator('#log .badge.miss').waitFor();
    assert.match(await page.textContent('#verdict'), /^You waited .* this page was rendered while you waited\.$/);

    const hit = await askOnce(page);
    assert.equal(hit.badge, 'HIT');
    assert.match(hit.words, /^Served from the cache in .*fresh for .*Cache-Status: isr; hit; ttl=\d/);

    await page.click('#ask-often');
    const stale = page.locator('#log tr', { has: page.locator('.badge.stale') }).first();
    await stale.waitFor({ timeout: 30_000 });
    assert.match(await stale.textContent(), /STALE.*past its freshness.*A new render runs.*detail=stale/s);
    await page.locator('#log tr', { hasText: 'no. 2' }).first().waitFor({ timeout: 30_000 });
    await page.click('#ask-often');
    assert.equal((await newest(page)).badge, 'HIT');

    await page.reload();
    assert.match(await page.textContent('#slip'), /Render no\. 2 of this page/);
    assert.deepEqual(troubles, []);
  });

  test('a miss that the panel itself meets', { skip }, async (t) => {
    const { page, troubles } = await visit(t);
    await page.goto('/stories');
    // The panel asks for the address that it stands at, which nobody has asked for.
    await page.evaluate(() => history.replaceState(null, '', '/stories?page=2'));
    assert.equal((await askOnce(page)).badge, 'MISS');
    assert.equal((await askOnce(page)).badge, 'HIT');
    assert.deepEqual(troubles, []);
  });

  test('the personal page is a bypass, and counts for each visitor', { skip }, async (t) => {
    const { page, troubles, browser, address } = await visit(t);
    assert.match(said(await page.goto('/order')), /^isr; fwd=miss; .*detail=set-cookie$/);
    for (const times of [2, 3]) {
      assert.match(said(await page.reload()), /^isr; fwd=bypass; .*detail=cookie$/);
      assert.match(await page.textContent('main'), new RegExp(`You have asked ${times} times\\.`));
    }
    const asked = await askOnce(page);
    assert.equal(asked.badge, 'BYPASS');
    assert.match(asked.words, /a cookie that the cache does not know/);

    const other = await openPage(browser, { baseURL: address });
    await other.page.goto('/order');
    assert.match(await other.page.textContent('main'), /This is the first time you have asked\./);
    assert.deepEqual([...troubles, ...other.troubles], []);
  });

  test('a broken oven: the last good copy stands in', { skip }, async (t) => {
    const { page, troubles } = await visit(t);
    await page.goto('/unreliable');
    await page.goto('/oven');
    await page.click('button[value=broken]');
    await page.waitForLoadState();
    await page.goto('/unreliable');
    await page.click('#ask-often');
    const standIn = page.locator('#log tr', { hasText: 'The site failed' }).first();
    await standIn.waitFor({ timeout: 60_000 });
    assert.match(await standIn.textContent(), /STALE.*The site failed.*detail=stale-if-error/s);
    assert.deepEqual(troubles, []);
  });

  test('nothing scrolls sideways on a telephone', { skip }, async (t) => {
    const { page, troubles } = await visit(t, { viewport: { width: 320, height: 640 }, isMobile: true, hasTouch: true });
    for (const path of paths) {
      await page.goto(path);
      if (await page.locator('#ask-once').count() > 0) await askOnce(page);
      const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(content <= screen, `${path} is ${content} px wide on a screen of ${screen} px`);
    }
    assert.deepEqual(troubles.filter((trouble) => !/status of 404 .*\/nothing\)$/.test(trouble)), []);
  });
});
