// Helpers for the tests of the console.
import { openPage, serveConsole, serveOrigin, tokens } from './rig.mjs';

// config is the configuration file of a site: five generations of each page, and a rule that
// rejects pages that are cut off.
export const config = (origin, more = '') => `
listen: [{address: "127.0.0.1:0"}]
admin: {address: "\${ADMIN}"}
store: {data: "\${DATA}", timeout: 10s}
origins: {site: {url: "${origin}"}}
defaults:
  stale: 1h
  history: 5
  reject: {without: "</html>"}
${more}`;

// A shop has pages that say how often they were rendered, and are fresh for an hour: /blog/...,
// tagged; /slow, which takes as long as shop.delay; /shaky, which fails while shop.broken; /cut,
// of which the end is missing while shop.cut.
export async function openShop(t, isr, options = {}) {
  const shop = { delay: 0, broken: false, cut: false, title: 'Page' };
  const origin = await serveOrigin(t, async ({ url }, n) => {
    if (url === '/slow') await new Promise((resolve) => { setTimeout(resolve, shop.delay).unref(); });
    if (url === '/shaky' && shop.broken) return { status: 500, body: 'broken' };
    const headers = { 'CDN-Cache-Control': 'max-age=3600', 'Cache-Tag': url.startsWith('/blog/') ? 'blog,news' : 'shop' };
    const body = `<!doctype html><html lang="en"><title>${shop.title}</title><style>h1 { color: teal }</style><h1>${shop.title} ${url}</h1>\n<p>Rendering ${n}.</p>\n`;
    return { headers, body: body + (url === '/cut' && shop.cut ? '' : '</html>\n') };
  });
  return Object.assign(shop, { origin }, await serveConsole(t, isr, config(origin.address, options.config), options));
}

// visit requests a page of the site and returns its Cache-Status.
export async function visit(shop, path) {
  const response = await fetch(shop.site + path);
  await response.text();
  return response.headers.get('cache-status');
}

// openConsole opens the console in a new browser context, signed in with a token.
export async function openConsole(browser, admin, { token = tokens.admin, path = '/', ...options } = {}) {
  const opened = await openPage(browser, { baseURL: admin, ...options });
  // Text that becomes markup, or a script that a page brings along, violates the policy.
  await opened.page.addInitScript(() => {
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  await opened.page.goto(path);
  await signIn(opened.page, token);
  return opened;
}

export async function signIn(page, token) {
  await page.getByLabel('Admin token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('.freshness.is-live').waitFor();
}

// violations of the Content-Security-Policy on the present document.
export const violations = (page) => page.evaluate(() => window.violations);

// act presses a button, returns the command line that the dialog shows, and confirms.
export async function act(page, name, verb = name) {
  await page.getByRole('group', { name: 'Changes' }).getByRole('button', { name, exact: true }).click();
  return confirm(page, verb);
}

// confirm confirms the open dialog, waits until it is gone, and returns its command line.
export async function confirm(page, verb) {
  const dialog = page.locator('dialog');
  const line = await dialog.getByLabel('Command line').textContent();
  await dialog.getByRole('button', { name: verb, exact: true }).click();
  await page.waitForFunction(() => !document.querySelector('dialog') || document.querySelector('dialog .failure'));
  if (await dialog.count() > 0) throw new Error(`${line}: ${await dialog.locator('.failure').textContent()}`);
  return line;
}
