// Helpers for the browser tests: servers on free ports, and Chromium.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer as createHTTPServer } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const startTimeout = 300_000; // ms until a server must answer
const waitTimeout = 300_000; // ms until a page must be as a test expects, also on a busy machine

// need returns a value that ./test sets in the environment. Without it the tests that
// need it are skipped; in CI they fail.
export function need(name, what) {
  const value = process.env[name];
  if (value) return { value, skip: false };
  const reason = `no ${what}: ${name} is not set; ./test prepares it and sets it`;
  if (process.env.CI === 'true') throw new Error(reason);
  return { value, skip: reason };
}

// start runs a program until stop is called. stop waits until it has exited.
function start(program, args, env = {}) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  const exited = once(child, 'exit').catch((err) => { server.output += `${err.message}\n`; });
  const server = {
    output: '',
    exited: false,
    async stop() {
      child.kill('SIGTERM');
      const kill = setTimeout(() => child.kill('SIGKILL'), 15_000);
      await exited;
      clearTimeout(kill);
    },
  };
  exited.then(() => { server.exited = true; });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { server.output += data; });
  return server;
}

// until polls until the condition returns a value. It fails if the server exits, or after
// startTimeout.
async function until(server, what, condition) {
  const deadline = Date.now() + startTimeout;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (server.exited || Date.now() > deadline) {
      await server.stop();
      throw new Error(`${what} does not answer; its output:\n${server.output}`);
    }
    await new Promise((resolve) => { setTimeout(resolve, 20); });
  }
}

// freePort returns a port on which nothing listens. It is below those that systems give to connections
// and to listeners of port 0, so that no other program gets it before the server that is started.
async function freePort() {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    const server = createServer().listen(port, '127.0.0.1');
    const free = await once(server, 'listening').then(() => true, (failure) => {
      if (failure.code !== 'EADDRINUSE') throw failure;
      return false;
    });
    if (!free) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

// serveSite serves a site of e2e/sites until the end of the test.
export async function serveSite(t, folder) {
  const port = await freePort();
  const server = start(join(folder, 'run'), ['serve', String(port)]);
  t.after(server.stop);
  const address = `http://127.0.0.1:${port}`;
  await until(server, folder, () => fetch(address).then((answer) => answer.text()).catch(() => undefined));
  return address;
}

// serveISR runs isr serve with a new data directory until the end of the test.
export async function serveISR(t, program, ...flags) {
  const data = await temporary(t);
  return serve(t, program, ['--listen', '127.0.0.1:0', '--data', data, '--store-timeout', '10s', ...flags]);
}

// serveConfigured serves a site of e2e/sites through isr serve, with the configuration in the
// site's folder.
export async function serveConfigured(t, program, folder) {
  const env = { ORIGIN: await serveSite(t, folder), LISTEN: '127.0.0.1:0', ADMIN: 'none', DATA: await temporary(t), STORE_TIMEOUT: '10s' };
  return serve(t, program, ['--config', join(folder, 'isr.yaml')], env);
}

async function serve(t, program, flags, env) {
  const server = start(program, ['serve', ...flags], env);
  t.after(server.stop);
  return until(server, 'isr serve', () => /serving (http:\/\/127\.0\.0\.1:\d+)/.exec(server.output)?.[1]);
}

// serveOrigin serves what answer returns for a request ({status, headers, body}), until the end
// of the test. It counts the requests by path.
export async function serveOrigin(t, answer) {
  const served = { counts: new Map(), address: '' };
  const server = createHTTPServer(async (request, response) => {
    served.counts.set(request.url, (served.counts.get(request.url) ?? 0) + 1);
    const { status = 200, headers = {}, body = '' } = await answer(request, served.counts.get(request.url));
    response.writeHead(status, { 'Content-Type': 'text/html; charset=utf-8', ...headers });
    response.end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  served.address = `http://127.0.0.1:${server.address().port}`;
  return served;
}

// The tokens of the servers of serveConsole.
export const tokens = { admin: 'the-admin-token-of-the-browser-tests', read: 'the-token-that-may-only-read-in-tests' };

// serveConsole runs isr serve with its admin listener until the end of the test. config is the
// text of its configuration file. It returns the addresses of the site and of the console, and
// isr, which runs a command line of isr as an operator would.
export async function serveConsole(t, program, config, options = {}) {
  const folder = options.folder ?? dirname(await temporary(t));
  const file = join(folder, 'isr.yaml');
  await writeFile(file, config);
  const environment = { ISR_ADMIN_TOKEN: tokens.admin, ISR_ADMIN_READ_TOKEN: tokens.read, DATA: join(folder, 'data'), ADMIN: options.admin ?? '127.0.0.1:0', ...options.env };
  const server = start(program, ['serve', '--config', file], environment);
  t.after(server.stop);
  const { site, admin } = await addresses(server);
  return { site, admin, folder, server, host: new URL(site).host, isr: (line) => command(program, line) };
}

// serveDemo runs isr serve --demo with its admin listener until the end of the test.
export async function serveDemo(t, program, ...flags) {
  const data = await temporary(t);
  const server = start(program, ['serve', '--demo', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--data', data, '--store-timeout', '10s', ...flags]);
  t.after(server.stop);
  return { data, ...await addresses(server) };
}

// addresses waits for the addresses of a server with an admin listener.
async function addresses(server) {
  const found = (pattern) => until(server, 'isr serve', () => pattern.exec(server.output)?.[1]);
  return {
    site: await found(/serving (http:\/\/127\.0\.0\.1:\d+)/),
    admin: await found(/admin API on (http:\/\/127\.0\.0\.1:\d+)/),
  };
}

// command runs a command line of isr that a view shows, and returns what it prints.
async function command(program, line) {
  if (!line.startsWith('isr ')) throw new Error(`no command line of isr: ${line}`);
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', `exec "$ISR"${line.slice(3)}`], { env: { ...process.env, ISR: program, ISR_ADMIN_TOKEN: tokens.admin } });
  return stdout;
}

async function temporary(t) {
  const folder = await mkdtemp(join(tmpdir(), 'isr-browser-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'data');
}

// openBrowser runs Chromium until the end of the test.
export async function openBrowser(t, executablePath) {
  const browser = await launchBrowser(executablePath);
  t.after(() => browser.close());
  return browser;
}

// launchBrowser runs Chromium until it is closed.
export function launchBrowser(executablePath) {
  return chromium.launch({
    executablePath,
    // Chromium's sandbox does not work as root.
    args: ['--disable-quic', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])],
  });
}

// openPage opens a page in a new browser context (a new visitor) and records its problems:
// console errors, uncaught exceptions and failed requests. Requests that a navigation
// aborts are not failures.
export async function openPage(browser, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(waitTimeout);
  const page = await context.newPage();
  const problems = [];
  page.on('console', (message) => {
    if (message.type() !== 'error' || /\/favicon\.ico$/.test(message.location().url)) return;
    problems.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (err) => problems.push(`script: ${err.message}`));
  page.on('requestfailed', (request) => {
    const { errorText } = request.failure();
    if (errorText !== 'net::ERR_ABORTED') problems.push(`request: ${request.url()} ${errorText}`);
  });
  return { page, problems };
}

// stored waits until the cache has the response to a request for a page, which it sends before it
// stores it.
export async function stored(address, headers = {}) {
  const deadline = Date.now() + waitTimeout;
  for (;;) {
    const response = await fetch(address, { headers: { accept: 'text/html', ...headers } });
    await response.arrayBuffer();
    const status = response.headers.get('cache-status') ?? '';
    if (status.startsWith('isr; hit')) return;
    if (Date.now() > deadline) throw new Error(`${address} is not stored: ${status}`);
    await new Promise((resolve) => { setTimeout(resolve, 20); });
  }
}

// hydrated waits until a script follows the links of a page; before, the browser itself does. The
// sites with such a script set the attribute.
export const hydrated = (page) => page.locator('html[data-ready]').waitFor({ state: 'attached' });

// cacheStatus returns the Cache-Status of a response.
export const cacheStatus = (response) => response.headers()['cache-status'] ?? '';
