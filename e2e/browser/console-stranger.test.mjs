// A stranger's first five minutes with the console: start, open, sign in, request a page, find
// it, purge it, see it regenerate, roll it back.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { act, confirm, signIn, visit } from './console.mjs';
import { need, openBrowser, openPage, serveDemo } from './rig.mjs';

const isr = need('ISR_TEST_ISR', 'isr command');
const chromium = need('ISR_TEST_CHROMIUM', 'Chromium');

test('the first five minutes', { skip: isr.skip || chromium.skip }, async (t) => {
  // isr serve --demo --history 5
  const demo = await serveDemo(t, isr.value, '--history', '5');
  const browser = await openBrowser(t, chromium.value);
  const { page, problems } = await openPage(browser, { baseURL: demo.admin });

  // The sign-in says where the token is.
  await page.goto('/');
  await page.getByText('cat isr-data/admin.token').waitFor();
  await signIn(page, (await readFile(join(demo.data, 'admin.token'), 'utf8')).trim());

  // Nothing has been requested: the console says what to do, with an address that works.
  await page.getByText('No page has been requested yet.').waitFor();
  const curl = await page.locator('.empty').getByLabel('Command line').textContent();
  assert.equal(curl, `curl -i ${demo.site}/`);
  assert.match(await visit(demo, '/'), /fwd=miss/);
  assert.match(await visit(demo, '/'), /^isr; hit/);
  await page.getByText('No page has been requested yet.').waitFor({ state: 'detached' });
  const figure = (name) => page.locator('.figure', { hasText: name }).locator('strong');
  await page.waitForFunction(() => document.querySelector('.figures')?.textContent.includes('Hits1'));
  assert.equal(await figure('Misses').textContent(), '1');

  // The page is in the list, and has a view.
  await page.getByRole('navigation').getByRole('link', { name: 'Pages' }).click();
  const key = `${new URL(demo.site).host}/`;
  await page.getByRole('link', { name: key, exact: true }).click();
  await page.getByRole('heading', { name: key }).waitFor();
  await page.getByText('1 kept').waitFor();

  // A purge: the next visitor gets the old page, and a new one is rendered.
  await act(page, 'Purge');
  assert.match(await visit(demo, '/'), /stale/);
  await page.getByText('2 kept').waitFor();
  await page.locator('.states .is-fresh, .states .is-stale').first().waitFor();

  // The earlier rendering comes back, and stays.
  await page.locator('.generations .act button').first().click();
  const line = await confirm(page, 'Roll back and pin');
  assert.match(line, /^isr rollback \S+ --to \S+ --server http:\/\/127\.0\.0\.1:\d+$/);
  await page.locator('.states .is-pinned').waitFor();
  assert.match(await visit(demo, '/'), /^isr; hit/);
  assert.deepEqual(problems, []);
});
