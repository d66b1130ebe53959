// A Django site behind isr serve, in a browser: personal content is never shared.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cacheStatus, need, openBrowser, openPage, serveISR, serveSite } from './rig.mjs';

const isr = need('ISR_TEST_ISR', 'isr command');
const chromium = need('ISR_TEST_CHROMIUM', 'Chromium');
const site = need('ISR_TEST_DJANGO', 'built Django site');
const skip = isr.skip || chromium.skip || site.skip;

// visit opens the site for two visitors.
async function visit(t, ...flags) {
  const address = await serveISR(t, isr.value, '--origin', await serveSite(t, site.value), ...flags);
  const browser = await openBrowser(t, chromium.value);
  return [await openPage(browser, { baseURL: address }), await openPage(browser, { baseURL: address })];
}

describe('django', { concurrency: 2 }, () => {
  for (const flags of [[], ['--ignore-cookie', 'sessionid,csrftoken'], ['--ignore-cookie', '*', '--revalidate', '1h']]) {
    const how = flags.join(' ') || 'no flags';

    test(`counters and names are kept per visitor: ${how}`, { skip }, async (t) => {
      const [ann, bob] = await visit(t, ...flags);
      for (const [{ page }, visits] of [[ann, '1'], [ann, '2'], [bob, '1'], [ann, '3'], [bob, '2']]) {
        await page.goto('/visits/');
        assert.equal(await page.textContent('#visits'), visits);
      }
      for (const [{ page }, name] of [[ann, 'Ann & co.'], [bob, 'Bob']]) {
        await page.goto('/guestbook/');
        await page.fill('input[name=name]', name);
        await page.click('text=Sign');
        await page.locator('#name').waitFor();
      }
      for (const [{ page }, name] of [[ann, 'Ann & co.'], [bob, 'Bob']]) {
        await page.goto('/guestbook/');
        assert.equal(await page.textContent('#name'), name);
      }
      assert.deepEqual([...ann.problems, ...bob.problems], []);
    });
  }

  test('style sheets load, redirects stay behind the cache, and the second visitor gets a hit', { skip }, async (t) => {
    const [ann, bob] = await visit(t);
    const first = await ann.page.goto('/');
    assert.match(cacheStatus(first), /^isr; fwd=miss; .*stored/);
    const rules = await ann.page.evaluate(() => [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).length);
    assert.ok(rules > 0, 'the style sheet has no rules');
    const second = await bob.page.goto('/old/');
    assert.equal(new URL(second.url()).href, new URL(first.url()).href);
    assert.match(cacheStatus(second), /^isr; hit/);
    assert.deepEqual([...ann.problems, ...bob.problems], []);
  });
});
