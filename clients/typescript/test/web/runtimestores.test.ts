/** The stores of FaceTheory's runtime, on real stores. Two of them on one table stand for two processes. */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { PutObjectCommand } from '@aws-sdk/client-s3';

import { LeaseLostError, PinnedError } from '../../src/errors.js';
import {
  createRuntimeStores,
  type RuntimeRecord,
  type RuntimeStores,
  type RuntimeStoresOptions,
} from '../../src/web/index.js';
import { onEngines, type TestTable } from '../engines.js';
import { generation, StoppedClock, storeOn } from '../isr/table.js';
import { newBucket, noBucket, type TestBucket } from '../next/stores.js';

const cacheKey = 'default::/posts/{slug}?slug=a';
const policy = "default-src 'self'; script-src 'nonce-abc'";

class Rig {
  readonly clock = new StoppedClock();
  readonly table: TestTable;
  readonly bucket: TestBucket;

  constructor(table: TestTable, bucket: TestBucket) {
    this.table = table;
    this.bucket = bucket;
  }

  stores(options: RuntimeStoresOptions = {}): RuntimeStores {
    const { clock, table, bucket } = this;
    const { ddb, tableName } = table;
    return createRuntimeStores({
      ddb,
      tableName,
      s3: bucket.s3,
      bucket: bucket.name,
      clock,
      callSeconds: 60,
      ...options,
    });
  }

  store() {
    return storeOn(this.table, { clock: this.clock });
  }

  lease(stores: RuntimeStores, leaseOwner: string, key = cacheKey) {
    return stores.metaStore.tryAcquireLease({
      cacheKey: key,
      leaseOwner,
      nowMs: this.clock.now(),
      leaseDurationMs: 5_000,
      fallbackRevalidateSeconds: 60,
    });
  }

  /** Renders a page, as the runtime does. */
  async regenerate(stores: RuntimeStores, page: Page = {}): Promise<string> {
    const { body = 'a page', status = 200, contentType = 'text/html', key = cacheKey } = page;
    const { leaseToken, acquired } = await this.lease(stores, 'renderer', key);
    assert.ok(acquired && leaseToken);
    const htmlPointer = `isr/0123456789abcdef01234567/${this.clock.now()}-${randomUUID()}.html`;
    const contentSecurityPolicy = page.contentSecurityPolicy ?? null;
    const { etag } = await stores.htmlStore.write({
      key: htmlPointer,
      body: Buffer.from(body),
      contentType,
      cacheControl: 'public, max-age=0',
      metadata: { 'facetheory-status': String(status) },
    });
    await stores.metaStore.commitGeneration({
      ...{ cacheKey: key, leaseToken, htmlPointer, generatedAt: this.clock.now(), revalidateSeconds: 60 },
      ...{ status, contentType, contentSecurityPolicy, etag },
    });
    await stores.metaStore.releaseLease({ cacheKey: key, leaseToken });
    return htmlPointer;
  }

  /** Reports whether the runtime would serve a record without a render. */
  isFresh(record: RuntimeRecord | null): boolean {
    assert.ok(record?.htmlPointer);
    return this.clock.now() < record.generatedAt + record.revalidateSeconds * 1000;
  }
}

interface Page {
  body?: string;
  status?: number;
  contentType?: string;
  contentSecurityPolicy?: string;
  key?: string;
}

function onStores(name: string, body: (rig: Rig) => Promise<void>): void {
  onEngines(name, async (table, t) => {
    if (noBucket) {
      t.skip(noBucket);
      return;
    }
    await body(new Rig(table, await newBucket(t)));
  });
}

onStores(
  'a page has its status, type and policy in every process, and is complete for the other clients',
  async (rig) => {
    const [a, b] = [rig.stores({ staleSeconds: 3600 }), rig.stores()];
    assert.equal(await a.metaStore.get(cacheKey), null);
    const notFound = { status: 404, contentType: 'application/problem+json', contentSecurityPolicy: policy };
    const htmlPointer = await rig.regenerate(a, { body: 'not found', ...notFound });
    for (const { metaStore, htmlStore } of [a, b]) {
      const record = await metaStore.get(cacheKey);
      const { etag, ...rest } = record ?? { etag: null };
      assert.match(etag ?? '', /^".+"$/);
      assert.deepEqual(rest, {
        ...{ cacheKey, htmlPointer, generatedAt: rig.clock.now(), revalidateSeconds: 60 },
        ...{ ...notFound, leaseOwner: null, leaseToken: null, leaseExpiresAt: 0 },
      });
      const stored = await htmlStore.read(htmlPointer);
      assert.equal(Buffer.from(stored?.body ?? []).toString(), 'not found');
      assert.deepEqual(stored?.metadata, { 'facetheory-status': '404' });
    }
    const { entry } = await rig.store().read({ cacheKey });
    assert.deepEqual(
      [entry?.foreign, entry?.status, entry?.contentLength, entry?.staleSeconds, entry?.headers],
      [false, 404, 9, 3600, { 'content-type': ['application/problem+json'], 'content-security-policy': [policy] }],
    );
    assert.equal(await a.htmlStore.read('isr/none.html'), null);
    await Promise.all([a.close(), b.close()]);
  },
);

onStores('an invalidated page is missing in every process, until it is rendered again', async (rig) => {
  const [a, b] = [rig.stores(), rig.stores()];
  await rig.regenerate(a);
  assert.ok(rig.isFresh(await b.metaStore.get(cacheKey)));
  await a.metaStore.invalidate(cacheKey);
  for (const { metaStore } of [a, b]) assert.equal(await metaStore.get(cacheKey), null);
  const { record, acquired, leaseToken } = await rig.lease(b, 'b');
  assert.deepEqual([acquired, record.htmlPointer], [true, null]); // nothing that could be served if the render fails
  await b.metaStore.releaseLease({ cacheKey, leaseToken: leaseToken ?? '' });
  const again = await rig.regenerate(b);
  for (const { metaStore } of [a, b]) {
    const found = await metaStore.get(cacheKey);
    assert.equal(found?.htmlPointer, again);
    assert.ok(rig.isFresh(found)); // at once, and not only after the tolerance of pages without a sequence
  }
  await Promise.all([a.close(), b.close()]);
});

onStores('a page that is invalidated while it is rendered is not served', async (rig) => {
  const [a, b] = [rig.stores(), rig.stores()];
  const { leaseToken } = await rig.lease(a, 'a');
  await b.metaStore.invalidate(cacheKey);
  const htmlPointer = 'isr/0/late.html';
  await a.htmlStore.write({ key: htmlPointer, body: Buffer.from('late') });
  await a.metaStore.commitGeneration({
    ...{ cacheKey, leaseToken: leaseToken ?? '', htmlPointer, generatedAt: rig.clock.now(), revalidateSeconds: 60 },
    ...{ status: 200, contentType: 'text/html' },
  });
  assert.equal(await a.metaStore.get(cacheKey), null);
  await Promise.all([a.close(), b.close()]);
});

onStores('purges of other programs apply: soft ones end the freshness, hard ones the page', async (rig) => {
  const stores = rig.stores();
  const store = rig.store();
  for (const target of [
    { kind: 'key', value: cacheKey },
    { kind: 'prefix', value: 'default::/posts' },
    { kind: 'site' },
  ] as const) {
    const htmlPointer = await rig.regenerate(stores);
    assert.ok(rig.isFresh(await stores.metaStore.get(cacheKey)));
    await store.purge([target]);
    const stale = await stores.metaStore.get(cacheKey);
    assert.equal(stale?.htmlPointer, htmlPointer, target.kind);
    assert.ok(!rig.isFresh(stale), target.kind);
    await store.purge([target], { hard: true });
    assert.equal(await stores.metaStore.get(cacheKey), null, target.kind);
  }
  await stores.close();
});

onStores('one process has the lease, and a publish gives it up', async (rig) => {
  const [a, b] = [rig.stores(), rig.stores()];
  await rig.regenerate(a);
  rig.clock.advance(61_000);
  const expired = await a.metaStore.get(cacheKey);
  assert.ok(!rig.isFresh(expired));
  const held = await rig.lease(a, 'a');
  assert.deepEqual([held.acquired, held.record.leaseOwner, held.record.htmlPointer], [true, 'a', expired?.htmlPointer]);
  const refused = await rig.lease(b, 'b');
  assert.deepEqual([refused.acquired, refused.leaseToken, refused.record], [false, null, expired]);
  const lost = { cacheKey, htmlPointer: 'x', generatedAt: rig.clock.now(), revalidateSeconds: 60, status: 200 };
  await assert.rejects(
    b.metaStore.commitGeneration({ ...lost, leaseToken: 'another', contentType: 'text/html' }),
    LeaseLostError,
  );
  await b.metaStore.releaseLease({ cacheKey, leaseToken: 'another' }); // of another process: not released
  assert.equal((await rig.lease(b, 'b')).acquired, false);
  await a.metaStore.releaseLease({ cacheKey, leaseToken: held.leaseToken ?? '' });
  await rig.regenerate(b);
  await a.close();
  await b.close();
});

onStores('pages of isr serve and the other clients are served as they are, or rendered again', async (rig) => {
  const stores = rig.stores();
  const store = rig.store();
  const now = rig.clock.now();
  let n = 0;
  const publish = async (headers: Record<string, string[]>, status: number) => {
    const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 5_000 });
    await store.publish(lease, lease.record, generation(`g${n++}`, now, { status, headers }));
    return stores.metaStore.get(cacheKey);
  };
  const found = await publish({ 'content-type': ['text/plain'], 'content-security-policy': ['a', 'b'] }, 404);
  assert.deepEqual([found?.status, found?.contentType, found?.contentSecurityPolicy], [404, 'text/plain', 'a, b']);
  assert.equal((await publish({}, 200))?.contentType, 'text/html; charset=utf-8');
  assert.equal(await publish({ location: ['/b'] }, 301), null);
  assert.equal(await publish({ 'content-encoding': ['gzip'] }, 200), null);
  await publish({}, 200);
  await store.pin({ cacheKey, untilMs: now + 3_600_000 });
  rig.clock.advance(1_800_000);
  assert.ok(rig.isFresh(await stores.metaStore.get(cacheKey)));
  await assert.rejects(rig.regenerate(stores), PinnedError);
  rig.clock.advance(1_800_000);
  assert.ok(!rig.isFresh(await stores.metaStore.get(cacheKey)));
  await Promise.all([stores.close(), store.close()]);
});

onStores(
  'of a page whose body or status only the bucket has, the table has the attributes of the reference',
  async (rig) => {
    const [a, b] = [rig.stores(), rig.stores()];
    await rig.regenerate(a, { status: 302 });
    assert.equal((await rig.store().read({ cacheKey })).entry?.foreign, true);
    const { leaseToken } = await rig.lease(b, 'b');
    const key = 'isr/elsewhere.html';
    await rig.bucket.s3.send(new PutObjectCommand({ Bucket: rig.bucket.name, Key: key, Body: 'elsewhere' }));
    await b.metaStore.commitGeneration({
      ...{
        cacheKey,
        leaseToken: leaseToken ?? '',
        htmlPointer: key,
        generatedAt: rig.clock.now(),
        revalidateSeconds: 60,
      },
      ...{ status: 404, contentType: 'text/html' },
    });
    const { entry } = await rig.store().read({ cacheKey });
    assert.deepEqual([entry?.foreign, entry?.htmlPointer, entry?.status], [true, key, 200]);
    assert.ok(rig.isFresh(await a.metaStore.get(cacheKey)));
    await Promise.all([a.close(), b.close()]);
  },
);
