/** The cache provider in a real Astro server, behind a real gateway. */

import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import createProvider from '../../src/astro/index.js';
import { freePort, until } from '../next/servers.js';

const site = process.env['ISR_TEST_ASTRO_CACHE'] ?? fileURLToPath(new URL('../../../test/astro/site', import.meta.url));
const isr = process.env['ISR_TEST_ISR'];
/** The site's Node.js: Astro needs a newer one than this package. */
const node = join(site, 'node_modules/.bin/node');
const token = 'a-token-of-the-tests';

const missing =
  (existsSync(node) ? undefined : `${site} has no node_modules: npm ci there; ./test installs it`) ??
  (isr ? undefined : 'ISR_TEST_ISR names no binary of isr; ./test sets it');

/** Starts a process that is killed after the test, and returns what it has printed. */
function start(
  t: TestContext,
  command: string,
  args: string[],
  env: Record<string, string>,
  cwd: string,
): () => string {
  const child: ChildProcess = spawn(command, args, {
    cwd,
    env: { PATH: process.env['PATH'], HOME: cwd, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += chunk));
  t.after(() => child.kill('SIGKILL'));
  return () => {
    assert.equal(child.exitCode, null, output);
    return output;
  };
}

test('Astro pages are cached by isr serve, and invalidated by path and by tag', {
  skip: missing ?? false,
  timeout: 600_000,
}, async (t) => {
  const SITE_PROVIDER = new URL('../../src/astro/index.js', import.meta.url).href;
  const env = { PATH: process.env['PATH'], HOME: site, ASTRO_TELEMETRY_DISABLED: '1', SITE_PROVIDER };
  await promisify(execFile)(node, [join(site, 'node_modules/astro/bin/astro.mjs'), 'build'], { cwd: site, env });
  const folder = await mkdtemp(join(tmpdir(), 'astro-'));
  t.after(() => rm(folder, { recursive: true }));
  const [port, origin, admin] = [await freePort(), await freePort(), await freePort()];
  const gateway = start(
    t,
    isr ?? '',
    [
      'serve',
      '--listen',
      `127.0.0.1:${port}`,
      '--origin',
      `http://127.0.0.1:${origin}`,
      '--admin',
      `127.0.0.1:${admin}`,
      '--data',
      join(folder, 'data'),
      '--store-timeout',
      '20s',
    ],
    { ISR_ADMIN_TOKEN: token },
    folder,
  );
  const astro = start(
    t,
    node,
    [join(site, 'dist/server/entry.mjs')],
    {
      HOST: '127.0.0.1',
      PORT: String(origin),
      ISR_ADMIN_URL: `http://127.0.0.1:${admin}`,
      ISR_ADMIN_TOKEN: token,
      ISR_HOST: `127.0.0.1:${port}`,
    },
    site,
  );
  await until('both serve', () => gateway().includes('serving http') && /listening/i.test(astro()));
  const visit = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return { at: /<time>([^<]+)/.exec(text)?.[1], status: response.headers.get('cache-status') ?? '' };
  };
  const invalidate = async (options: object) => {
    const response = await fetch(`http://127.0.0.1:${origin}/api/invalidate`, {
      method: 'POST',
      body: JSON.stringify(options),
    });
    assert.deepEqual([response.status, await response.text()], [200, 'done']);
  };
  let [front, other] = [await visit('/'), await visit('/other')];
  for (const options of [
    { tags: ['products', 'unknown'] },
    { tags: 'front' },
    { path: '/' },
    { path: '/', tags: ['front'] },
  ]) {
    const [again, kept] = [await visit('/'), await visit('/other')];
    assert.equal(again.at, front.at, `a page with CDN-Cache-Control is cached: ${again.status}`);
    assert.match(again.status, /hit/);
    assert.equal(kept.at, other.at, 'another page is kept');
    await invalidate(options);
    const next = await visit('/');
    assert.notEqual(next.at, front.at, JSON.stringify(options));
    [front, other] = [next, kept];
  }
});

test('an invalidation that does not reach the gateway is an error that names the remedy', async () => {
  const before = process.env['ISR_ADMIN_TOKEN'];
  delete process.env['ISR_ADMIN_TOKEN'];
  try {
    await assert.rejects(createProvider().invalidate({ tags: 'a' }), /ISR_ADMIN_TOKEN is missing/);
    process.env['ISR_ADMIN_TOKEN'] = token;
    const adminUrl = 'http://127.0.0.1:1';
    await assert.rejects(
      createProvider({ adminUrl }).invalidate({ tags: 'a' }),
      /did not answer a purge: is its admin API there/,
    );
    await assert.rejects(createProvider({ adminUrl }).invalidate({ path: '/' }), /host is missing: set ISR_HOST/);
    await assert.rejects(
      createProvider({ adminUrl, host: 'a.test' }).invalidate({ path: 'x' }),
      /does not begin with \//,
    );
    await createProvider({ adminUrl }).invalidate({});
    assert.throws(() => createProvider({ timeoutSeconds: 61 }), /timeoutSeconds must be above 0 and at most 60/);
  } finally {
    if (before === undefined) delete process.env['ISR_ADMIN_TOKEN'];
    else process.env['ISR_ADMIN_TOKEN'] = before;
  }
});
