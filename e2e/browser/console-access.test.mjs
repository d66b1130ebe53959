// The console for everyone: no serious violation that axe-core finds, in light and dark, on a
// laptop and on a phone; nothing that scrolls sideways on a phone.
//
// With ISR_TEST_SCREENSHOTS=FOLDER (such as docs/images) it writes the pictures of README and
// docs there.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { openConsole, openShop, violations, visit } from './console.mjs';
import { launchBrowser, need, openPage, tokens } from './rig.mjs';

const isr = need('ISR_TEST_ISR', 'isr command');
const chromium = need('ISR_TEST_CHROMIUM', 'Chromium');
const skip = isr.skip || chromium.skip;
const pictures = process.env.ISR_TEST_SCREENSHOTS;
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const pictured = { light: ['overview', 'page'], dark: ['pages'], phone: ['overview'] };
const screens = {
  light: { viewport: { width: 1280, height: 800 } },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' },
  phone: { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true },
};

// audit returns the serious violations of the present document. The console's policy allows no
// injected script element: axe is evaluated by the debugger, as isolated text.
async function audit(page) {
  await page.evaluate(axe);
  const { violations: found } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'], iframes: false }));
  return found.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`);
}

describe('access', () => {
  let browser;
  let shop;
  let key;
  const cleanups = [];
  before(async () => {
    if (skip) return;
    browser = await launchBrowser(chromium.value);
    shop = await openShop({ after: (end) => cleanups.push(end) }, isr.value);
    key = (path) => shop.host + path;
    await traffic();
  });
  after(async () => {
    await browser?.close();
    for (const end of cleanups.reverse()) await end();
  });

  // traffic makes what the views show: hits, misses, failures, purges, generations, quarantine.
  async function traffic() {
    for (let i = 1; i <= 40; i++) for (let n = 0; n <= i % 5; n++) await visit(shop, `/blog/${i}`);
    for (const path of ['/', '/about', '/shaky', '/cut']) await visit(shop, path);
    await fetch(shop.site, { headers: { Cookie: 'session=1' } });
    Object.assign(shop, { broken: true, cut: true, title: 'A better page' });
    await shop.isr(`isr purge --hard ${key('/shaky')} --server ${shop.admin}`);
    await visit(shop, '/shaky');
    for (let n = 0; n < 3; n++) await shop.isr(`isr regenerate ${key('/blog/1')} --server ${shop.admin}`);
    await shop.isr(`isr regenerate ${key('/cut')} --server ${shop.admin}`).catch(() => 'rejected');
    await shop.isr(`isr pin ${key('/about')} --server ${shop.admin}`);
    await shop.isr(`isr purge --tag news --server ${shop.admin}`);
    for (let i = 1; i <= 10; i++) await visit(shop, `/blog/${i}`);
  }

  // views are the views with what must be there before they are examined.
  const views = () => ({
    overview: ['/', (page) => page.locator('.panel', { hasText: 'Most requested' }).locator('a.key').first().waitFor()],
    pages: ['/pages', (page) => page.locator('.vspace a.key').nth(5).waitFor()],
    page: [`/page?key=${encodeURIComponent(key('/blog/1'))}`, (page) => page.locator('.diff .added').first().waitFor()],
    purges: ['/purges', (page) => page.locator('tr', { hasText: 'tag news' }).first().waitFor()],
    quarantine: ['/quarantine', async (page) => {
      await page.getByRole('button', { name: 'Compare with the current' }).click();
      await page.locator('.diff').waitFor();
    }],
    nodes: ['/nodes', (page) => page.locator('tbody tr').first().waitFor()],
    audit: ['/audit', (page) => page.locator('tr', { hasText: 'purgePages' }).first().waitFor()],
  });

  for (const [screen, options] of Object.entries(screens)) {
    test(`all views: ${screen}`, { skip }, async (t) => {
      const { page, problems } = await openConsole(browser, shop.admin, options);
      t.after(() => page.context().close());
      for (const [name, [path, ready]] of Object.entries(views())) {
        await page.goto(path);
        await page.locator('.freshness.is-live').waitFor();
        await ready(page);
        assert.deepEqual(await audit(page), [], name);
        assert.deepEqual(await violations(page), [], name);
        const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(content <= width, `${name} is ${content} px wide on a screen of ${width} px`);
        if (pictures && pictured[screen].includes(name)) await page.screenshot({ path: join(pictures, `console-${name}${screen === 'light' ? '' : `-${screen}`}.png`) });
      }
      assert.deepEqual(problems, []);
    });
  }

  for (const colorScheme of ['light', 'dark']) {
    test(`dialogs, the rendered comparison, empty views and the sign-in: ${colorScheme}`, { skip }, async (t) => {
      const { page } = await openConsole(browser, shop.admin, { colorScheme });
      t.after(() => page.context().close());
      await page.goto(`/page?key=${encodeURIComponent(key('/blog/1'))}`);
      await page.getByRole('button', { name: 'Purge hard' }).click();
      assert.deepEqual(await audit(page), [], 'a dialog');
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Rendered' }).click();
      await page.locator('.rendering iframe').first().waitFor();
      assert.deepEqual(await audit(page), [], 'the rendered comparison');
      for (const path of ['/pages?q=nothing-has-this-name', '/page', '/page?key=example.com/nothing']) {
        await page.goto(path);
        await page.locator('.empty').first().waitFor();
        assert.deepEqual(await audit(page), [], path);
      }
      const visitor = await openPage(browser, { baseURL: shop.admin, colorScheme });
      t.after(() => visitor.page.context().close());
      await visitor.page.goto('/');
      await visitor.page.getByLabel('Admin token').waitFor();
      assert.deepEqual(await audit(visitor.page), [], 'the sign-in');
      await page.context().clearCookies();
      const reader = await openConsole(browser, shop.admin, { colorScheme, token: tokens.read, path: `/page?key=${encodeURIComponent(key('/blog/1'))}` });
      t.after(() => reader.page.context().close());
      await reader.page.getByRole('group', { name: 'Changes' }).waitFor();
      assert.deepEqual(await audit(reader.page), [], 'a token that may only read');
    });
  }
});
