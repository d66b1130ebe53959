// What the browser tests share: servers on ports of their own, and Chromium.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const startTime = 60_000; // ms that a server may take to answer

// need returns what ./test leaves in the environment. Without it, the tests that
// want it are skipped, and in CI they fail.
export function need(name, what) {
  const value = process.env[name];
  if (value) return { value, skip: false };
  const reason = `no ${what}: ${name} is not set; ./test prepares it and sets it`;
  if (process.env.CI === 'true') throw new Error(reason);
  return { value, skip: reason };
}

// start runs a program until stop is called, which waits for its end.
function start(program, ...args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit').catch((err) => { server.output += `${err.message}\n`; });
  const server = {
    output: '',
    over: false,
    async stop() {
      child.kill('SIGTERM');
      const kill = setTimeout(() => child.kill('SIGKILL'), 15_000);
      await ended;
      clearTimeout(kill);
    },
  };
  ended.then(() => { server.over = true; });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { server.output += data; });
  return server;
}

// until polls until the condition gives something, while the server lives.
async function until(server, what, condition) {
  const deadline = Date.now() + startTime;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (server.over || Date.now() > deadline) {
      await server.stop();
      throw new Error(`${what} does not answer; it wrote:\n${server.output}`);
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

// serveSite serves a site of e2e/sites, until the end of the test.
export async function serveSite(t, folder) {
  const port = await freePort();
  const server = start(join(folder, 'run'), 'serve', String(port));
  t.after(server.stop);
  const address = `http://127.0.0.1:${port}`;
  await until(server, folder, () => fetch(address).then((answer) => answer.text()).catch(() => undefined));
  return address;
}

// serveISR runs isr serve on a new data folder, until the end of the test.
export async function serveISR(t, program, ...flags) {
  const folder = await mkdtemp(join(tmpdir(), 'isr-browser-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const server = start(program, 'serve', '--listen', '127.0.0.1:0', '--data', join(folder, 'data'), ...flags);
  t.after(server.stop);
  return until(server, 'isr serve', () => /serving (http:\/\/127\.0\.0\.1:\d+)/.exec(server.output)?.[1]);
}

// openBrowser starts Chromium, until the end of the test.
export async function openBrowser(t, executablePath) {
  const browser = await chromium.launch({
    executablePath,
    // Debian's sandbox needs a user who is not root.
    args: ['--disable-quic', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])],
  });
  t.after(() => browser.close());
  return browser;
}

// openPage opens a page as a visitor of its own, and keeps what goes wrong in it:
// errors on the console, scripts that throw, and requests that fail. A page that
// is left takes its unfinished requests along; that is no failure.
export async function openPage(browser, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const troubles = [];
  page.on('console', (message) => {
    if (message.type() !== 'error' || /\/favicon\.ico$/.test(message.location().url)) return;
    troubles.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (err) => troubles.push(`script: ${err.message}`));
  page.on('requestfailed', (request) => {
    const { errorText } = request.failure();
    if (errorText !== 'net::ERR_ABORTED') troubles.push(`request: ${request.url()} ${errorText}`);
  });
  return { page, troubles };
}

// said is what the cache says of an answer.
export const said = (answer) => answer.headers()['cache-status'] ?? '';
