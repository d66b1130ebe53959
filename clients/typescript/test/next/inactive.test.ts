/** Handlers where something is missing, and what Next.js bundles into proxies and the edge runtime. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { createCacheHandler } from '../../src/next/handler.js';
import { createUseCacheHandler } from '../../src/next/usecache/handler.js';
import { minute, page, pageContext } from './processes.js';

test('without a build, a table or valid options the handler is inactive, with one warning that names the reason', async () => {
  for (const [options, ctx, reason] of [
    [{ buildId: 'b', bucket: 'x' }, {}, /tableName is missing: set FACETHEORY_CACHE_TABLE_NAME/],
    [{ buildId: 'b', tableName: 't' }, {}, /bucket is missing: set FACETHEORY_CACHE_BUCKET/],
    [{ tableName: 't', bucket: 'b' }, {}, /gives it no build in the proxy \(middleware\)/],
    [{ tableName: 't', bucket: 'b' }, { serverDistDir: '/nowhere/server' }, /BUILD_ID cannot be read/],
    [{ tableName: 't', bucket: 'b', buildId: 'b', leaseSeconds: 0 }, {}, /leaseSeconds must be at least 1 seconds/],
    [{ tableName: 't', bucket: 'b', buildId: 'b', tenant: '/' }, {}, /tenant/],
  ] as const) {
    const warnings: string[] = [];
    const Handler = createCacheHandler({ ...options, warn: (message) => warnings.push(message) });
    const functions = createUseCacheHandler(Handler);
    for (let i = 0; i < 2; i++) {
      const handler = new Handler(ctx);
      assert.deepEqual(warnings.length, i, 'the constructor does nothing');
      assert.equal(await handler.get('/page', pageContext), null);
      await handler.set('/page', page('one'), minute);
      await assert.rejects(handler.revalidateTag(['news', 'sport']), (failure: Error) => {
        assert.match(failure.message, /^news, sport cannot be revalidated/);
        assert.match(failure.message, reason);
        return true;
      });
      await functions.refreshTags();
      assert.equal(await functions.get('k', []), undefined);
      await functions.updateTags(['news']);
      assert.equal(warnings.length, 1);
      assert.match(warnings[0] ?? '', reason);
    }
  }
});

test('a server of the build is active, although a handler was constructed without one before', async () => {
  const warnings: string[] = [];
  const Handler = createCacheHandler({ tableName: 't', bucket: 'b', warn: (message) => warnings.push(message) });
  assert.equal(await new Handler({}).get('/page', pageContext), null);
  await new Handler({ serverDistDir: '/nowhere/server' }).get('/page', pageContext);
  assert.match(warnings[1] ?? '', /BUILD_ID cannot be read/);
});

/** The modules that a compiled module imports statically, itself included, and the packages that they import. */
function importsOf(module: URL, found = new Set<string>()): Set<string> {
  if (found.has(module.href)) return found;
  found.add(module.href);
  const source = readFileSync(module, 'utf8');
  for (const [, name = ''] of source.matchAll(/^(?:import|export)\b[^;]*?\bfrom '([^']+)';|^import '([^']+)';/gm)) {
    if (name.startsWith('.')) importsOf(new URL(name, module), found);
    else found.add(name);
  }
  return found;
}

test('complaint: a site with an edge middleware fails: what Next.js bundles for the edge runtime has no modules of Node.js', () => {
  for (const entry of ['index.js', 'usecache/index.js', 'gateway/index.js']) {
    const found = importsOf(new URL(`../../src/next/${entry}`, import.meta.url));
    assert.ok(found.size > 3, 'the modules of the entry were found');
    assert.deepEqual(
      [...found].filter((name) => !name.startsWith('file:')),
      [],
      entry,
    );
  }
  // Nor does the entry for sites behind `isr serve` name them for later: such sites need no AWS SDK.
  const gateway = importsOf(new URL('../../src/next/gateway/index.js', import.meta.url));
  for (const module of gateway) assert.doesNotMatch(readFileSync(new URL(module), 'utf8'), /\bimport\(/, module);
  const active = importsOf(new URL('../../src/next/active.js', import.meta.url));
  assert.ok(active.has('node:crypto') && active.has('@aws-sdk/client-s3'), 'the check finds imports');
});
