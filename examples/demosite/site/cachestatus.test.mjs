// node --test examples/demosite/site/cachestatus.test.mjs
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explain, ours, parse } from './assets/cachestatus.js';

test('parse', () => {
  for (const [value, want] of [
    ['', []],
    ['isr; hit; ttl=7', [{ cache: 'isr', params: { hit: true, ttl: 7 } }]],
    ['isr;hit;ttl=-3;detail=stale', [{ cache: 'isr', params: { hit: true, ttl: -3, detail: 'stale' } }]],
    ['isr; fwd=miss; fwd-status=200; stored; ttl=10', [{ cache: 'isr', params: { fwd: 'miss', 'fwd-status': 200, stored: true, ttl: 10 } }]],
    ['isr; fwd=miss; stored=?0', [{ cache: 'isr', params: { fwd: 'miss', stored: false } }]],
    ['"Edge \\"1\\", a"; fwd=uri-miss, isr; hit', [
      { cache: 'Edge "1", a', params: { fwd: 'uri-miss' } },
      { cache: 'isr', params: { hit: true } },
    ]],
    ['isr; fwd=bypass; detail="a; b, c"', [{ cache: 'isr', params: { fwd: 'bypass', detail: 'a; b, c' } }]],
  ]) assert.deepEqual(parse(value), want, value);
  for (const bad of ['isr; hit,', 'isr hit', 'isr;', 'isr; ttl=', '"isr', 'isr; A=1', ',isr']) {
    assert.throws(() => parse(bad), SyntaxError, bad);
  }
});

test('ours is the last isr of several caches', () => {
  assert.deepEqual(ours(parse('isr; fwd=miss, cdn; hit, isr; hit; ttl=1')), { hit: true, ttl: 1 });
  assert.equal(ours(parse('cdn; hit')), undefined);
});

test('explain', () => {
  for (const [value, facts, word, text] of [
    ['', { ms: 1004 }, 'NO CACHE', /Rendered for you in 1,004 ms/],
    ['', { ms: 1004, status: 500 }, 'ERROR', /Status 500/],
    ['isr; hit; ttl=6', { ms: 2.04, age: 4 }, 'HIT', /^Served from the cache in 2\.0 ms\. Rendered 4 s ago; fresh for 6 s more\.$/],
    ['isr; hit', { ms: 2 }, 'HIT', /^Served from the cache in 2\.0 ms\.$/],
    ['isr; hit; ttl=-3; detail=stale', { ms: 2, age: 13 }, 'STALE', /Rendered 13 s ago, 3 s past its freshness\. A new render runs/],
    ['isr; hit; ttl=-3', { ms: 2 }, 'STALE', /It is 3 s past/],
    ['isr; hit; ttl=0', { ms: 2, age: 9 }, 'HIT', /fresh for less than a second more/],
    ['isr; hit; detail=stale', { ms: 2 }, 'STALE', /It is past its freshness/],
    ['isr; hit; ttl=-3; detail=moon', { ms: 2 }, 'STALE', /in the background \(moon\)/],
    ['isr; hit; ttl=-9; detail=stale-if-error', { ms: 2, age: 14 }, 'STALE', /14 s ago, 9 s past its freshness\. The site failed/],
    ['isr; fwd=miss; fwd-status=500; detail=back-off', { ms: 2, status: 500 }, 'ERROR', /Status 500 after 2\.0 ms: a render failed just now/],
    ['isr; fwd=miss; fwd-status=200; stored; ttl=10', { ms: 1003, status: 200 }, 'MISS', /rendered for you in 1,003 ms\. It is stored now, fresh for 10 s\./],
    ['isr; fwd=uri-miss; detail=private', { ms: 1003, status: 200 }, 'MISS', /not stored: the site marks the page as private/],
    ['isr; fwd=miss; collapsed', { ms: 400, status: 200 }, 'MISS', /joined it and waited 400 ms/],
    ['isr; fwd=miss; fwd-status=500', { ms: 400, status: 500 }, 'ERROR', /Status 500/],
    ['isr; fwd=stale; fwd-status=200; stored; collapsed; ttl=10', { ms: 900, status: 200 }, 'RENEWED', /shared with other requests.*Fresh for 10 s/],
    ['isr; fwd=stale; fwd-status=500', { ms: 900, status: 200 }, 'STALE', /returned 500\. The cache served the last good copy/],
    ['isr; fwd=stale; fwd-status=502', { ms: 900, status: 502 }, 'ERROR', /Status 502/],
    ['isr; fwd=bypass; detail=cookie', { ms: 900, status: 200 }, 'BYPASS', /a cookie that the cache does not know/],
    ['isr; fwd=bypass; detail=moon', { ms: 900, status: 200 }, 'BYPASS', /not stored \(moon\)/],
    ['isr; fwd=method', { ms: 900, status: 200 }, 'BYPASS', /only GET and HEAD/],
  ]) {
    const got = explain(ours(parse(value)), facts);
    assert.equal(got.word, word, value);
    assert.match(got.text, text, value);
  }
});
