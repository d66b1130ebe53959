// Helpers for the browser tests: servers on free ports, and Chromium.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const startTimeout = 60_000; // ms until a server must answer

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
function start(program, ...args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
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

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

// serveSite serves a site of e2e/sites until the end of the test.
export async function serveSite(t, folder) {
  const port = await freePort();
  const server = start(join(folder, 'run'), 'serve', String(port));
  t.after(server.stop);
  const address = `http://127.0.0.1:${port}`;
  await until(server, folder, () => fetch(address).then((answer) => answer.text()).catch(() => undefined));
  return address;
}

// serveISR runs isr serve with a new data directory until the end of the test.
export async function serveISR(t, program, ...flags) {
  const folder = await mkdtemp(join(tmpdir(), 'isr-browser-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const server = start(program, 'serve', '--listen', '127.0.0.1:0', '--data', join(folder, 'data'), '--store-timeout', '10s', ...flags);
  t.after(server.stop);
  return until(server, 'isr serve', () => /serving (http:\/\/127\.0\.0\.1:\d+)/.exec(server.output)?.[1]);
}

// openBrowser runs Chromium until the end of the test.
export async function openBrowser(t, executablePath) {
  const browser = await chromium.launch({
    executablePath,
    // Chromium's sandbox does not work as root.
    args: ['--disable-quic', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])],
  });
  t.after(() => browser.close());
  return browser;
}

// openPage opens a page in a new browser context (a new visitor) and records its problems:
// console errors, uncaught exceptions and failed requests. Requests that a navigation
// aborts are not failures.
export async function openPage(browser, options) {
  const context = await browser.newContext(options);
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

// cacheStatus returns the Cache-Status of a response.
export const cacheStatus = (response) => response.headers()['cache-status'] ?? '';
