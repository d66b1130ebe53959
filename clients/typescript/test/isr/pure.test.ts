/** The test vectors that need no table, and cases beyond them. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ceilDecimal, floorDecimal } from '../../src/decimal.js';
import { InvalidInputError, InvalidKeyError } from '../../src/errors.js';
import {
  ageSeconds,
  bodyPrefix,
  canonicalKey,
  freshness,
  freshUntilMs,
  hashedPartition,
  hashInputs,
  mergePurgeStates,
  NEVER_PURGED,
  rawPartition,
  staleUntilMs,
} from '../../src/isr/index.js';
import { holdsUntil, readLock } from '../../src/isr/lockrow.js';
import { readRequest } from '../../src/isr/requestrow.js';
import { datedOf, itemOf, purgeStateOf, requestVector, vectors, whichOf } from './vectors.js';

describe('partition keys', () => {
  const { hashed = [], raw = [] } = vectors('partition-keys.json');
  for (const { name, tenant = '', key, pk, body_prefix } of hashed) {
    test(`hashed: ${name}`, () => {
      assert.equal(hashedPartition(key, tenant), pk);
      assert.equal(bodyPrefix(pk), body_prefix);
    });
  }
  for (const { name, tenant = '', key, pk, body_prefix } of raw) {
    test(`raw: ${name}`, () => {
      assert.equal(rawPartition(key, tenant), pk);
      assert.equal(bodyPrefix(pk), body_prefix);
    });
  }
});

describe('cache keys', () => {
  const { accepted = [], refused = [] } = vectors('cache-keys.json');
  for (const { name, text, key } of accepted) {
    test(name, () => assert.equal(canonicalKey(text), key));
  }
  for (const { name, text, error } of refused) {
    test(name, () => assert.throws(() => canonicalKey(text), { code: error }));
  }
});

describe('request hashes', () => {
  const { accepted = [], refused = [] } = vectors('request-hashes.json');
  for (const { name, inputs, sha256 } of accepted) {
    test(name, () => assert.equal(hashInputs(JSON.parse(inputs)), sha256));
  }
  // JSON.parse hides these errors: the digits, or the first of two members, are lost before
  // hashInputs is called.
  const unseen = [
    'an integer that is not exact',
    'a long integer',
    'an integer that has an exponent in canonical form',
    'a repeated name',
  ];
  for (const { name, inputs } of refused.filter((v) => !unseen.includes(v['name']))) {
    test(name, () => assert.throws(() => hashInputs(JSON.parse(inputs))));
  }
  test('values without portable JSON are rejected', () => {
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    for (const value of [undefined, Number.NaN, Number.POSITIVE_INFINITY, 1n, '\ud800', circle, 'x'.repeat(1 << 16)]) {
      assert.throws(() => hashInputs(value), InvalidInputError);
    }
  });
});

describe('freshness', () => {
  const decisions = ['freshness.json', 'build.json'].flatMap((file) => vectors(file)['decisions'] ?? []);
  for (const v of decisions) {
    test(v['name'], () => {
      const entry = datedOf(v['entry']);
      const now: number = v['now_ms'];
      assert.deepEqual(
        {
          state: freshness(entry, purgeStateOf(v['cover']), now),
          fresh_until_ms: freshUntilMs(entry),
          stale_until_ms: staleUntilMs(entry),
          age_seconds: ageSeconds(entry, now),
        },
        {
          state: v['state'],
          fresh_until_ms: v['fresh_until_ms'],
          stale_until_ms: v['stale_until_ms'],
          age_seconds: v['age_seconds'] ?? 0,
        },
      );
    });
  }
  test('purge states are merged by the maximum of each member', () => {
    const a = { seq: 7, hardSeq: 1, atMs: 5, markLifetimeSeconds: 0, build: 4 };
    const b = { seq: 3, hardSeq: 2, atMs: 9, markLifetimeSeconds: 10, build: 2 };
    assert.deepEqual(mergePurgeStates(a, b), { seq: 7, hardSeq: 2, atMs: 9, markLifetimeSeconds: 10, build: 4 });
    assert.deepEqual(mergePurgeStates(NEVER_PURGED, a), a);
  });
});

describe('stored locks', () => {
  for (const { name, item, now_ms, held, lock } of vectors('lease-arithmetic.json')['locks'] ?? []) {
    test(name, () => {
      const found = readLock(item ? itemOf(item) : undefined);
      assert.equal(holdsUntil(found.expiresAt, now_ms), held);
      if (lock === null) return;
      const { owner = '', lease_expires_at = 0, failures = 0 } = lock;
      assert.deepEqual(
        { owner: found.owner, lease_expires_at: found.expiresAt, failures: found.failures },
        { owner, lease_expires_at, failures },
      );
    });
  }
});

describe('stored requests', () => {
  for (const { name, row, now_ms, key, request, malformed } of vectors('items.json')['requests'] ?? []) {
    test(name, () => {
      const read = () => (row ? readRequest(itemOf(row), key, now_ms) : undefined);
      if (malformed) {
        assert.throws(read, (error: never) => {
          assert.deepEqual(whichOf(error), whichOf(malformed));
          return true;
        });
        return;
      }
      const found = read();
      assert.deepEqual(found && requestVector(found), request);
    });
  }
});

test('numbers are rounded exactly, with any number of digits', () => {
  const cases: [digits: string, floor: bigint | undefined, ceil: bigint | undefined][] = [
    ['0', 0n, 0n],
    ['-0.5', -1n, 0n],
    ['1.5', 1n, 2n],
    ['-1.5', -2n, -1n],
    ['1.000', 1n, 1n],
    ['9007199254740993.5', 9007199254740993n, 9007199254740994n],
    ['1E+3', 1000n, 1000n],
    ['15E-1', 1n, 2n],
    ['-1E-130', -1n, 0n],
    ['+1e2', 100n, 100n],
    ['0e999999', 0n, 0n],
    ['4611686018427387903.5', (1n << 62n) - 1n, 1n << 62n],
    ['9.9E+125', 1n << 62n, 1n << 62n],
    ['1E-999999', 0n, 1n],
    ['-1E+999999', -(1n << 62n), -(1n << 62n)],
    ['-9.9E+125', -(1n << 62n), -(1n << 62n)],
    ['', undefined, undefined],
    ['x', undefined, undefined],
    ['.', undefined, undefined],
    ['1e', undefined, undefined],
  ];
  for (const [digits, floor, ceil] of cases) {
    assert.equal(floorDecimal(digits), floor, `floor of ${digits}`);
    assert.equal(ceilDecimal(digits), ceil, `ceil of ${digits}`);
  }
});

test('invalid cache keys are rejected', () => {
  assert.throws(() => hashedPartition('\ud800'), InvalidKeyError);
  assert.throws(() => rawPartition('x'.repeat(2043)), InvalidKeyError);
  assert.equal(rawPartition('x'.repeat(2042)).length, 2048);
  assert.throws(() => hashedPartition(undefined as never), InvalidInputError);
});
