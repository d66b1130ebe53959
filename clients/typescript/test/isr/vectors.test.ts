/** The test vectors about the content of a table. */

import assert from 'node:assert/strict';

import { TheorydbError } from '../../src/errors.js';
import {
  checkRequestKey,
  type FaceTheoryIsrMetaStore,
  hashedPartition,
  type Lease,
  type PageRecord,
  type PurgeTarget,
  rawPartition,
} from '../../src/isr/index.js';
import { onEngines, type TestTable } from '../engines.js';
import { fill, generation, itemsOf, StoppedClock, storeOn } from './table.js';
import {
  comparable,
  entryVector,
  itemOf,
  markVector,
  ms,
  nextOf,
  optional,
  purgeStateOf,
  recordVector,
  requestVector,
  type Vector,
  vectors,
  whichOf,
} from './vectors.js';

/** Returns the error code of a call, undefined if it succeeded. Errors without a code fail the test. */
async function codeOf(call: () => unknown): Promise<string | undefined> {
  try {
    await call();
    return undefined;
  } catch (error) {
    if (error instanceof TheorydbError) return error.code;
    throw error;
  }
}

onEngines('rows are parsed as the test vectors demand', async (table) => {
  await readPages(table, 'items.json');
  const file = vectors('items.json');
  const { cache_key: cacheKey } = file;
  const store = storeOn(table);
  for (const v of file['versions'] ?? []) {
    await fill(table, v['rows'].map(itemOf));
    assert.deepEqual((await store.versions({ cacheKey })).map(entryVector), v['entries'], v['name']);
  }
});

/** Checks the vectors `reads` of a file. */
async function readPages(table: TestTable, name: string): Promise<void> {
  const file = vectors(name);
  const { cache_key: cacheKey } = file;
  assert.equal(hashedPartition(cacheKey), file.pk);
  const store = storeOn(table);
  for (const v of file['reads'] ?? []) {
    await fill(table, v['rows'].map(itemOf));
    const found = recordVector(await store.read({ cacheKey }));
    const { entry, cover, lock, malformed } = v;
    const expected = {
      ...optional('entry', entry),
      ...optional('cover', cover),
      ...optional('lock', lock),
      ...optional('malformed', malformed && whichOf(malformed)),
    };
    assert.deepEqual(found, expected, v['name']);
  }
}

onEngines('request records and the log are parsed as the test vectors demand', async (table) => {
  const file = vectors('items.json');
  const { cache_key: cacheKey } = file;
  for (const v of file['requests'] ?? []) {
    await fill(table, v['row'] ? [itemOf(v['row'])] : []);
    const store = storeOn(table, { now: () => v['now_ms'] });
    await expect(v, async () => {
      const request = await store.request({ cacheKey, idempotencyKey: v['key'] });
      assert.deepEqual(request ? requestVector(request) : undefined, v['request'], v['name']);
    });
  }
  const store = storeOn(table);
  for (const v of file['sequences'] ?? []) {
    await fill(table, v['row'] ? [itemOf(v['row'])] : []);
    await expect(v, async () => {
      const expected = { seq: v['seq'], markLifetimeSeconds: v['mark_lifetime'] };
      assert.deepEqual(await store.sequence(), expected, v['name']);
    });
  }
  await readLogs(table, 'items.json');
});

/** Checks the vectors `logs` of a file. */
async function readLogs(table: TestTable, name: string): Promise<void> {
  const store = storeOn(table);
  for (const v of vectors(name)['logs'] ?? []) {
    await fill(table, v['rows'].map(itemOf));
    const expected = v['changes'].map(({ seq, reload = [], marks = [], confirm = false }: Vector) => ({
      seq,
      reload: reload.map(({ tenant = '', key }: Vector) => ({ tenant, key })),
      marks,
      confirm,
    }));
    const changes = await store.changes(v['after']);
    const unreadable = changes.flatMap(({ malformed }) => malformed ?? []).map(whichOf);
    const { malformed } = v;
    assert.deepEqual(unreadable, malformed ? [whichOf(malformed)] : [], v['name']);
    const readable = changes
      .filter((change) => !change.malformed)
      .map((change) => ({ ...change, marks: change.marks.map(markVector) }));
    assert.deepEqual(readable, expected, v['name']);
  }
}

onEngines('marks are read as the test vectors demand', async (table) => {
  await readLogs(table, 'marks.json');
  const file = vectors('marks.json');
  for (const v of file['marks'] ?? []) {
    await fill(table, v['rows'].map(itemOf));
    await expect(v, async () => {
      const marks = await storeOn(table).marks();
      assert.deepEqual(marks.map(markVector), v['marks'], v['name']);
    });
  }
  for (const v of file['covering'] ?? []) {
    await fill(table, v['rows'].map(itemOf));
    const store = storeOn(table, { now: () => v['now_ms'], tenant: v['tenant'] ?? '' });
    await expect(v, async () => {
      const state = await store.covering({ cacheKey: v['key'], tags: v['tags'] ?? [] });
      assert.deepEqual(state, purgeStateOf(v['cover']), v['name']);
    });
  }
});

/** Expects the call to succeed, or to report the malformed row of the vector. */
async function expect({ name, malformed }: Vector, call: () => Promise<void>): Promise<void> {
  if (!malformed) return call();
  await assert.rejects(
    call,
    (error: never) => {
      assert.deepEqual(whichOf(error), whichOf(malformed), name);
      return true;
    },
    name,
  );
}

onEngines('lease arithmetic matches the test vectors', async (table) => {
  const file = vectors('lease-arithmetic.json');
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  for (const v of file['leases'] ?? []) {
    await fill(table, []);
    clock.set(v['now_ms']);
    const lease = await store.acquireLease({ cacheKey: 'k', leaseDurationMs: v['lease_duration_ms'] });
    assert.equal(lease.leaseDurationMs / 1000, v['duration_seconds'], v['name']);
    assert.equal(lease.leaseExpiresAtMs / 1000, v['lease_expires_at'], v['name']);
    const [row] = await itemsOf(table);
    assert.deepEqual(
      [row?.['lease_expires_at']?.N, row?.['ttl']?.N].map(Number),
      [v['lease_expires_at'], v['ttl']],
      v['name'],
    );
  }
  for (const v of file['requests'] ?? []) {
    await fill(table, []);
    clock.set(v['now_ms']);
    await store.acquireLease({
      cacheKey: 'k',
      leaseDurationMs: v['lease_duration_ms'],
      idempotencyKey: 'r',
      requestHash: 'h',
      requestKeepSeconds: v['keep_seconds'] ?? 0,
    });
    const row = (await itemsOf(table)).find((item) => item['sk']?.S === 'REQ#r');
    const found = [row?.['in_progress_until']?.N, row?.['ttl']?.N].map(Number);
    assert.deepEqual(found, [v['in_progress_until'], v['ttl']], v['name']);
  }
});

onEngines('backoff rows and superseded versions match the test vectors', async (table) => {
  const file = vectors('lease-arithmetic.json');
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  const cacheKey = 'k';
  const pk = hashedPartition(cacheKey);
  for (const v of file['back_offs'] ?? []) {
    const failures = v['failures_before'] ?? 0;
    const before = {
      pk: { S: pk },
      sk: { S: 'LOCK' },
      lease_expires_at: { N: '1' },
      failures: { N: String(failures) },
    };
    await fill(table, failures ? [before] : []);
    clock.set(v['now_ms']);
    const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
    await store.backOff(lease, v['pause_ms'] ?? 0);
    const [row] = await itemsOf(table);
    const found = [row?.['lease_expires_at']?.N, row?.['ttl']?.N, row?.['failures']?.N].map(Number);
    assert.deepEqual(found, [v['lease_expires_at'], v['ttl'], v['failures']], v['name']);
  }
  for (const v of file['superseded'] ?? []) {
    await fill(table, []);
    clock.set(v['now_ms']);
    for (const id of ['g1', 'g2']) {
      const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
      const next = generation(id, v['now_ms'], optional('ttlUnixSeconds', v['ttl']));
      await store.publish(lease, lease.record, next, {
        history: true,
        ...optional('supersededAtMs', ms(v['superseded_at'])),
      });
    }
    const row = (await itemsOf(table)).find((item) => item['sk']?.S === 'VER#g1');
    assert.equal(Number(row?.['ttl']?.N), v['version_ttl'], v['name']);
  }
});

/** Executes the steps of an operation. */
class Caller {
  readonly #store: FaceTheoryIsrMetaStore;
  readonly #clock: StoppedClock;
  readonly #cacheKey: string;
  #lease: Lease | undefined;
  #record: PageRecord | undefined;

  constructor(store: FaceTheoryIsrMetaStore, clock: StoppedClock, cacheKey: string) {
    this.#store = store;
    this.#clock = clock;
    this.#cacheKey = cacheKey;
  }

  async take(s: Vector): Promise<unknown> {
    const store = this.#store;
    const cacheKey = this.#cacheKey;
    switch (s['do']) {
      case 'clock':
        return this.#clock.set(s['now_ms']);
      case 'read':
        this.#record = await store.read({ cacheKey });
        return;
      case 'acquire':
        this.#lease = await store.acquireLease(acquisition(cacheKey, s));
        return;
      case 'refresh':
        return store.refreshLease(this.#held);
      case 'release':
        return store.releaseLease(this.#held);
      case 'back_off':
        return store.backOff(this.#held, s['pause_ms'] ?? 0);
      case 'break_lease':
        return store.breakLease({ cacheKey, record: await this.#current() });
      case 'publish':
        return store.publish(this.#held, await this.#current(), nextOf(s['entry']), {
          history: s['history'] ?? false,
          unchanged: s['unchanged'] ?? false,
          unpin: s['unpin'] ?? false,
          ...optional('supersededAtMs', ms(s['superseded_at'])),
        });
      case 'rollback':
        return store.rollback({
          pinnedUntilMs: 0,
          ...declaration(cacheKey, s),
          to: s['to'],
          record: await this.#current(),
        });
      case 'pin':
        return this.#pin(s, await this.#current());
      case 'end_request':
        return store.endRequest(this.#held, endOf(s));
      case 'purge': {
        const { hard = false, confirm = false } = s;
        const { seq } = await store.purge((s['targets'] ?? []).map(targetOf), { hard, confirm });
        return assert.equal(seq, s['seq']);
      }
      case 'build':
        return assert.equal(await store.build(s['build'] ?? ''), s['seq']);
    }
    assert.fail(`unknown step ${s['do']}`);
  }

  get #held(): Lease {
    assert.ok(this.#lease, 'no lease was acquired');
    return this.#lease;
  }

  async #current(): Promise<PageRecord> {
    return this.#record ?? (await this.#store.read({ cacheKey: this.#cacheKey }));
  }

  #pin(s: Vector, record: PageRecord): Promise<unknown> {
    const { pinnedUntilMs, assertedAtMs: _, ...rest } = { ...declaration(this.#cacheKey, s), record };
    return pinnedUntilMs === undefined ? this.#store.unpin(rest) : this.#store.pin({ ...rest, untilMs: pinnedUntilMs });
  }
}

function targetOf({ kind, tenant = '', value = '' }: Vector): PurgeTarget {
  const target = { kind, tenant, value };
  return kind === 'key' ? { ...target, pk: hashedPartition(value, tenant) } : target;
}

function acquisition(cacheKey: string, { lease_duration_ms, claim }: Vector) {
  const plain = { cacheKey, leaseDurationMs: lease_duration_ms ?? 0 };
  if (!claim) return plain;
  const { key = '', request_hash = '', keep_seconds = 0 } = claim;
  return { ...plain, idempotencyKey: key, requestHash: request_hash, requestKeepSeconds: keep_seconds };
}

function declaration(cacheKey: string, s: Vector) {
  return {
    cacheKey,
    assertedAtMs: ms(s['asserted_at'] ?? 0),
    ...optional('pinnedUntilMs', ms(s['pinned_until'])),
    ...optional('ttlUnixSeconds', s['ttl']),
    ...optional('supersededAtMs', ms(s['superseded_at'])),
  };
}

function endOf({ failure = '', result }: Vector) {
  if (!result) return { failure };
  return { result: { htmlPointer: result.s3_key ?? '', ...optional('generationId', result.generation_id) } };
}

for (const name of ['writes.json', 'purges.json', 'build.json']) {
  onEngines(`operations write the rows of the test vectors: ${name}`, async (table) => {
    const file = vectors(name);
    for (const o of file['operations'] ?? []) {
      await fill(table, o['before'].map(itemOf));
      const clock = new StoppedClock(o['now_ms']);
      const tokens: string[] = [...o['tokens']];
      let drawn = 0;
      const newToken = () => tokens[drawn++] ?? `token-${drawn}`;
      const caller = new Caller(storeOn(table, { clock, newToken, leaseOwner: o['owner'] }), clock, file.cache_key);
      for (const [i, step] of o['steps'].entries()) {
        assert.equal(await codeOf(() => caller.take(step)), step.error, `${o['name']}: step ${i}, ${step.do}`);
      }
      assert.deepEqual(comparable(await itemsOf(table)), comparable(o['after'].map(itemOf)), o['name']);
    }
  });
}

onEngines('entries of builds are read as the test vectors demand', (table) => readPages(table, 'build.json'));

/** The calls of refused.json, with valid arguments where the vector gives none. */
const calls: Record<string, (table: TestTable, a: Vector) => unknown> = {
  hashed_partition: (_, { tenant = '', key = 'example.com/' }) => hashedPartition(key, tenant),
  raw_partition: (_, { tenant = '', key = 'example.com/' }) => rawPartition(key, tenant),
  request_key: (_, { key }) => checkRequestKey(key),
  async acquire(table, a) {
    await storeOn(table, { now: () => a['now_ms'] ?? Date.now() }).acquireLease({
      cacheKey: 'k',
      leaseDurationMs: a['lease_duration_ms'] ?? 30_000,
      idempotencyKey: a['request_key'] ?? 'r',
      requestHash: a['request_hash'] ?? 'h',
      requestKeepSeconds: a['keep_seconds'] ?? 3600,
    });
  },
  async publish(table, a) {
    const store = storeOn(table);
    const lease = await store.acquireLease({ cacheKey: 'k', leaseDurationMs: 30_000 });
    const good = { s3_key: 'bodies/x/g', generated_at: 1_800_000_000, revalidate_seconds: 60, generation_id: 'g' };
    const how = { history: true, ...optional('supersededAtMs', ms(a['superseded_at'])) };
    await store.publish(lease, lease.record, nextOf({ ...good, ...a }), how);
  },
  async commit_generation(table, a) {
    const store = storeOn(table);
    const { leaseToken } = await store.acquireLease({ cacheKey: 'k', leaseDurationMs: 30_000 });
    await store.commitGeneration({
      cacheKey: 'k',
      leaseToken,
      htmlPointer: a['html_pointer'] ?? 'bodies/x/g',
      generatedAtMs: a['generated_at_ms'] ?? 1_800_000_000_000,
      revalidateSeconds: a['revalidate_seconds'] ?? 60,
      ...optional('etag', a['etag']),
      ...optional('ttlUnixSeconds', a['ttl_unix_seconds']),
    });
  },
  async pin(table, a) {
    const store = storeOn(table);
    const lease = await store.acquireLease({ cacheKey: 'k', leaseDurationMs: 30_000 });
    await store.publish(lease, lease.record, generation('g', 1_800_000_000_000));
    await store.pin({
      cacheKey: 'k',
      untilMs: ms(a['pinned_until'] ?? 1_800_000_000),
      ...optional('ttlUnixSeconds', a['ttl']),
    });
  },
};

onEngines('invalid input is rejected as the test vectors demand', async (table) => {
  for (const { name, call, arguments: given, error } of vectors('refused.json')['calls'] ?? []) {
    await fill(table, []);
    const make = calls[call];
    assert.ok(make, `unknown call ${call}`);
    assert.equal(await codeOf(() => make(table, given)), error, name);
    if (call === 'acquire') assert.deepEqual(await itemsOf(table), [], `${name}: refused, and written`);
    const meta = (await itemsOf(table)).some((item) => item['sk']?.S === 'META');
    assert.equal(meta, call === 'pin', `${name}: refused, and published`);
  }
});
