// What pages of a hostile origin can do in the console: nothing but be shown as text.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { config, openConsole, violations } from './console.mjs';
import { need, openBrowser, serveConsole, serveOrigin } from './rig.mjs';

const isr = need('ISR_TEST_ISR', 'isr command');
const chromium = need('ISR_TEST_CHROMIUM', 'Chromium');

const script = '<script>top.attacked = 1; parent.attacked = 1; fetch("/-/purge", {method: "POST", headers: {"Content-Type": "application/json"}, body: \'{"targets":[{"all":true}]}\'})</script>';
const path = `/"><img src=x onerror=attacked=1>/${'long-'.repeat(120)}'%22%3Cscript%3Eattacked=1%3C/script%3E`;

test('a stored page cannot run scripts in the console, nor leave its frame', { skip: isr.skip || chromium.skip }, async (t) => {
  let outside = 0;
  const elsewhere = await serveOrigin(t, () => { outside++; return { body: 'elsewhere' }; });
  let n = 0;
  const origin = await serveOrigin(t, () => ({
    headers: {
      'CDN-Cache-Control': 'max-age=3600',
      'Surrogate-Key': `<script>attacked=1</script> javascript:attacked=1 ${Buffer.from('\u202egnp.exe').toString('latin1')}`,
      Link: '<javascript:attacked=1>; rel=preload', 'X-Title': '<svg onload=attacked=1>',
    },
    body: `<!doctype html><title>${'x'.repeat(200_000)}</title><base href="javascript:attacked=1" target="_top">
<meta http-equiv="refresh" content="0; url=${elsewhere.address}/refresh">${script}<img src="${elsewhere.address}/pixel" onerror="top.attacked=1">
<link rel="stylesheet" href="${elsewhere.address}/style"><style>@import url(${elsewhere.address}/import)</style><iframe src="${elsewhere.address}/frame"></iframe>
<a id="out" href="javascript:top.attacked=1" target="_top">Click here, ${n++}</a><form action="/-/purge" method="post" target="_top"><button id="send">Send</button></form>
<h1>Hostile</h1></html>`,
  }));
  const server = await serveConsole(t, isr.value, config(origin.address));
  const url = new URL(server.site);
  await fetch(`${url.origin}${encodeURI(path).replaceAll('%25', '%')}`).then((response) => response.text());
  const listed = (await server.isr(`isr ls --json --server ${server.admin}`)).trim().split('\n').map((line) => JSON.parse(line));
  assert.equal(listed.length, 1);
  const { key } = listed[0];
  await server.isr(`isr regenerate '${key.replaceAll("'", "'\\''")}' --server ${server.admin}`);

  const browser = await openBrowser(t, chromium.value);
  const { page } = await openConsole(browser, server.admin, { viewport: { width: 800, height: 700 } });
  const dialogs = [];
  page.on('dialog', (dialog) => { dialogs.push(dialog.message()); dialog.dismiss(); });
  const safe = async (where) => {
    assert.equal(await page.evaluate(() => window.attacked), undefined, where);
    assert.equal(new URL(page.url()).origin, server.admin, where);
    assert.equal(await page.locator('img[src=x], svg, main script').count(), 0, where);
    assert.deepEqual(await violations(page), [], where);
    const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(content <= width, `${where} is ${content} px wide`);
  };

  await page.goto('/pages');
  await page.getByRole('link', { name: key }).waitFor();
  await safe('the list');
  await page.getByRole('link', { name: key }).click();
  await page.locator('.states .is-fresh').waitFor();
  assert.equal((await page.locator('h1').textContent()), key);
  for (const link of await page.locator('main a').all()) {
    const target = new URL(await link.getAttribute('href'), server.admin);
    assert.equal(target.origin, server.admin, `a link leads to ${target}`);
  }
  await page.locator('.diff').waitFor();
  await safe('a page');

  await page.getByRole('button', { name: 'Rendered' }).click();
  const frame = page.frameLocator('.rendering iframe').last();
  await frame.locator('h1', { hasText: 'Hostile' }).waitFor();
  assert.equal(await page.locator('.rendering iframe').last().getAttribute('sandbox'), '');
  await frame.locator('#out').click();
  await frame.locator('#send').click();
  await page.locator('.rendering iframe').last().evaluate((element) => element.getBoundingClientRect());
  assert.deepEqual(await page.locator('.rendering iframe').last().evaluate((element) => {
    try { return element.contentDocument; } catch { return 'refused'; }
  }), null, 'the frame has an origin of its own');
  await safe('the rendered page');
  assert.deepEqual(dialogs, []);
  assert.equal(outside, 0, 'the frame requests nothing elsewhere');
  assert.equal((await server.isr(`isr ls --json --server ${server.admin}`)).includes('"state":"fresh"'), true, 'nothing was purged');
});
