/** The releases of Next.js: which are supported, and what is different for them. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

import type { CacheControl } from '../../src/next/contract.js';
import { Release } from '../../src/next/release.js';
import { packageFolder } from '../spec.js';

/** A release whose modules are loaded, and what it remembers. */
interface Loaded {
  modules: NodeJS.Dict<NodeJS.Module>;
  remembered: Map<string, CacheControl> | undefined;
}

/** Loads the modules of a release, from a folder with the files that distinguish it from others. */
function load(t: TestContext, version: string, name: string): Loaded {
  const folder = mkdtempSync(join(tmpdir(), 'next-release-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const modules = join(folder, 'next/dist/server/lib/incremental-cache');
  mkdirSync(modules, { recursive: true });
  writeFileSync(join(folder, 'next/package.json'), JSON.stringify({ name: 'next', version }));
  writeFileSync(join(modules, 'index.js'), '');
  writeFileSync(join(modules, name), 'exports.SharedCacheControls = class { static cacheControls = new Map(); };');
  const require = createRequire(join(folder, 'load.js'));
  const { SharedCacheControls } = require(join(modules, name));
  require(join(modules, 'index.js'));
  const own = Object.entries(require.cache).filter(([file]) => file.startsWith(modules));
  return { modules: Object.fromEntries(own), remembered: SharedCacheControls.cacheControls };
}

const shared = 'shared-cache-controls.external.js';
const key = `/route-cache/APP_PAGE/${'0'.repeat(64)}/$/page`;
const value = { kind: 'APP_PAGE' } as const;
const life = { revalidate: 40, expire: 3600 };

test('releases other than Next.js 15 and 16 are refused, with what to do', (t) => {
  for (const version of ['13.5.11', '14.2.35', '17.0.0-canary.3', '150.0.0']) {
    assert.throws(
      () => new Release(load(t, version, shared).modules),
      (failure: Error) => {
        assert.match(failure.message, /supports Next\.js 15 and 16: this is Next\.js /);
        assert.ok(failure.message.includes(`${version}. Install a supported release`));
        return true;
      },
    );
  }
  for (const version of ['15.0.0', '15.5.29', '16.0.0', '16.4.6', '16.5.0-canary.1']) {
    new Release(load(t, version, shared).modules);
  }
  new Release({}); // unknown, like a process without Next.js
});

test('next build fails without the AWS SDK, which its servers need', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'next-peers-'));
  t.after(() => rmSync(folder, { recursive: true }));
  cpSync(fileURLToPath(new URL('../../src', import.meta.url)), folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  const program = `
    const { createCacheHandler } = await import(process.argv[1]);
    new (createCacheHandler())({ dev: true });
    try { new (createCacheHandler())({}); console.log('built'); } catch (failure) { console.log(failure.message); }
  `;
  const build = async (compiled: string) => {
    const args = ['--input-type=module', '--eval', program, compiled];
    const env = { ...process.env, NEXT_PHASE: 'phase-production-build' };
    return (await promisify(execFile)(process.execPath, args, { env })).stdout.trim();
  };
  assert.equal(await build(new URL('../../src/next/index.js', import.meta.url).href), 'built');
  assert.equal(
    await build(pathToFileURL(join(folder, 'next/index.js')).href),
    '@aws-sdk/client-dynamodb is missing: servers of this build need it; npm install @aws-sdk/client-dynamodb',
  );
});

test('the range of peers has the same releases', () => {
  const { peerDependencies, peerDependenciesMeta } = JSON.parse(
    readFileSync(join(packageFolder(), 'package.json'), 'utf8'),
  );
  assert.equal(peerDependencies.next, '^15.0.0 || ^16.0.0');
  assert.deepEqual(peerDependenciesMeta.next, { optional: true });
});

test('complaint: Next.js 15 never regenerates by time: the lifetime of each answer is written where it looks', (t) => {
  for (const [version, file] of [
    ['15.4.11', shared],
    ['15.5.29', shared],
    ['16.0.0', shared],
    ['16.3.8', shared],
  ] as const) {
    const { modules, remembered } = load(t, version, file);
    const release = new Release(modules);
    const answer = { value, lastModified: 5, cacheControl: { revalidate: 1, expire: 3600 } };
    assert.deepEqual(release.adapt(key, answer, true), answer, version);
    assert.deepEqual(remembered?.get(key), answer.cacheControl);
    // Keys that are paths have other names in the memory of Next.js.
    for (const [path, name] of [
      ['/index', '/'],
      ['/news', '/news'],
      ['/index/index', '/index'],
    ] as const) {
      release.adapt(path, { value, lastModified: 5, cacheControl: life }, false);
      assert.deepEqual(remembered?.get(name), life, path);
    }
  }
});

test('before Next.js 15.4, which remembers lifetimes where no program reaches them, a stale page has no time', (t) => {
  const { modules } = load(t, '15.3.9', 'shared-cache-controls.js');
  const release = new Release(modules);
  const answer = { value, lastModified: 5, cacheControl: life };
  assert.deepEqual(release.adapt(key, answer, true), { ...answer, lastModified: -1 });
  assert.deepEqual(release.adapt(key, answer, false), answer);
});

test('before Next.js 16.4 a page that must not be served is a miss, unless the build found that it does not exist', (t) => {
  const expired = { value, lastModified: -1, cacheControl: life };
  const absent = { value: null, lastModified: -1 };
  for (const version of ['15.0.8', '15.5.29', '16.2.12', '16.3.8']) {
    const release = new Release(load(t, version, shared).modules);
    assert.equal(release.adapt(key, expired, false), null, version);
    assert.equal(release.adapt(key, absent, false), absent, version);
  }
  const { modules, remembered } = load(t, '16.4.5', shared);
  const release = new Release(modules);
  assert.equal(release.adapt(key, expired, false), expired);
  assert.equal(remembered?.size, 0, 'Next.js remembers the lifetime itself');
});

test('the lifetimes that are written for Next.js are bounded', (t) => {
  const { modules, remembered } = load(t, '15.5.29', shared);
  const release = new Release(modules);
  for (let i = 0; i < 10_010; i++) release.adapt(`/${i}`, { value, lastModified: 5, cacheControl: life }, false);
  assert.equal(remembered?.size, 10_000);
  assert.equal(remembered?.has('/9'), false);
  assert.equal(remembered?.has('/10'), true);
});
