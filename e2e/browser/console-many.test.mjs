// The list of many pages: how many rows exist, and how long painting, searching and scrolling
// take. The figures are reported, not asserted. ISR_TEST_CONSOLE_PAGES is how many pages there
// are: 3,000 if it is not set; the figures of docs/console.md are of 100,000.
import assert from 'node:assert/strict';
import { Agent, get } from 'node:http';
import { test } from 'node:test';
import { config, openConsole } from './console.mjs';
import { need, openBrowser, serveConsole, serveOrigin } from './rig.mjs';

const isr = need('ISR_TEST_ISR', 'isr command');
const chromium = need('ISR_TEST_CHROMIUM', 'Chromium');
const pages = Number(process.env.ISR_TEST_CONSOLE_PAGES || 3000);

// fill requests all pages, as a crawler would.
async function fill(site) {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  let next = 0;
  const crawl = async () => {
    for (let i = next++; i < pages; i = next++) {
      await new Promise((resolve, reject) => {
        get(`${site}/blog/${String(i).padStart(6, '0')}`, { agent }, (response) => { response.resume(); response.on('end', resolve); }).on('error', reject);
      });
    }
  };
  await Promise.all(Array.from({ length: 64 }, crawl));
  agent.destroy();
}

test(`${pages} pages`, { skip: isr.skip || chromium.skip, timeout: 1_200_000 }, async (t) => {
  const origin = await serveOrigin(t, ({ url }) => ({ headers: { 'CDN-Cache-Control': 'max-age=3600', 'Cache-Tag': `blog,a${url.slice(-1)}` }, body: `<h1>${url}</h1></html>` }));
  const server = await serveConsole(t, isr.value, config(origin.address));
  await fill(server.site);
  const browser = await openBrowser(t, chromium.value);
  const { page, problems } = await openConsole(browser, server.admin, { viewport: { width: 1280, height: 800 } });

  await page.goto('/pages');
  await page.waitForFunction((all) => document.querySelector('.vtable')?.getAttribute('aria-rowcount') === String(all + 1), pages, { timeout: 120_000 });
  const began = performance.now();
  await page.goto('/pages');
  await page.locator('.vspace a.key').first().waitFor();
  const rows = performance.now() - began;
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
  t.diagnostic(`first paint after ${paint?.toFixed(0)} ms, rows after ${rows.toFixed(0)} ms`);

  // Scrolls through the whole list; each step is a frame.
  const scroll = await page.evaluate(async () => {
    const box = document.querySelector('.vbody');
    const frames = [];
    let most = 0;
    for (let i = 0; i <= 120; i++) {
      const start = performance.now();
      box.scrollTop = (box.scrollHeight - box.clientHeight) * i / 120;
      await new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); });
      frames.push(performance.now() - start);
      most = Math.max(most, document.querySelectorAll('.vspace .vrow').length);
    }
    frames.sort((a, b) => a - b);
    return { median: frames[60], worst: frames.at(-1), most };
  });
  assert.ok(scroll.most > 0 && scroll.most < 100, `${scroll.most} rows exist while scrolling`);
  await page.getByRole('link', { name: `/blog/${String(pages - 1).padStart(6, '0')}` }).waitFor();
  t.diagnostic(`scrolling through all: two frames take ${scroll.median.toFixed(0)} ms (median), ${scroll.worst.toFixed(0)} ms (worst); at most ${scroll.most} rows exist`);

  const searched = performance.now();
  await page.getByLabel('Search').fill(`/blog/${String(pages - 7).padStart(6, '0')}`);
  await page.waitForFunction(() => document.querySelectorAll('.vspace a.key').length === 1);
  t.diagnostic(`a search takes ${(performance.now() - searched).toFixed(0)} ms, of which 250 ms wait for more keys`);
  assert.deepEqual(problems, []);
});
