import assert from 'node:assert/strict';
import { test } from 'node:test';

import { judge } from '../../src/web/judge.js';
import { storedFields } from '../../src/web/storedfields.js';

const bounds = { maxBodyBytes: 1000, staleSeconds: 0 };

function judged(headers: Record<string, string>, status = 200, staleSeconds = 0) {
  return judge(status, new Headers(headers), { ...bounds, staleSeconds });
}

test('only responses that declare themselves shared are stored', () => {
  for (const [headers, refused] of [
    [{}, 'no-freshness'],
    [{ 'cache-control': 'max-age=0' }, 'no-freshness'],
    [{ 'cache-control': 'max-age=60, private' }, 'private'],
    [{ 'cache-control': 'max-age=60, no-store' }, 'no-store'],
    [{ 'cache-control': 's-maxage=60, no-cache="set-cookie"' }, 'no-cache'],
    [{ 'cache-control': 's-maxage=60, ext="unclosed, private' }, 'malformed'],
    [{ 'cache-control': 's-maxage=60', 'set-cookie': 'session=1' }, 'set-cookie'],
    [{ 'cache-control': 's-maxage=60', vary: 'Cookie' }, 'vary'],
    [{ 'cache-control': 's-maxage=60', vary: '*' }, 'vary'],
    [{ 'cache-control': 's-maxage=60', 'content-encoding': 'gzip' }, 'content-encoding'],
    [{ 'cache-control': 's-maxage=60', 'content-type': 'text/event-stream' }, 'stream'],
    [{ 'cache-control': 's-maxage=60', 'content-length': '1001' }, 'too-large'],
    [{ 'cache-control': 's-maxage=60', 'x-long': 'x'.repeat(66_000) }, 'header-too-large'],
    [{ 'cache-control': 's-maxage=60', age: '60' }, 'too-old'],
    [{ 'cache-control': 's-maxage=60', 'cdn-cache-control': 'no-store' }, 'no-store'],
    [{ 'cache-control': 's-maxage=sixty' }, 'no-freshness'],
  ] as const) {
    const verdict = judged(headers as Record<string, string>);
    assert.equal('refused' in verdict && verdict.refused, refused, JSON.stringify(headers));
  }
  for (const status of [206, 401, 403, 416, 418]) {
    assert.deepEqual(judged({ 'cache-control': 's-maxage=60' }, status), {
      refused: 'status',
      withdraws: status === 401 || status === 403,
    });
  }
  for (const status of [408, 429, 500, 503]) {
    assert.deepEqual(judged({}, status), { failed: true, isPersonal: false });
    for (const [name, value] of [
      ['set-cookie', 'session=1'],
      ['cache-control', 'private'],
      ['cache-control', 'ext="unclosed, private'],
    ] as const) {
      assert.deepEqual(judged({ [name]: value }, status), { failed: true, isPersonal: true }, value);
    }
  }
});

test('windows and tags', () => {
  for (const [headers, revalidateSeconds, staleSeconds, most = 0] of [
    [{ 'cache-control': 'public, max-age=60' }, 60, 0],
    [{ 'cache-control': 'max-age=60, stale-while-revalidate=30' }, 60, 30],
    [{ 'cache-control': 's-maxage=60, max-age=5, stale-while-revalidate=30' }, 60, 0],
    [{ 'cache-control': 's-maxage=60, stale-while-revalidate=30' }, 60, 30, 100],
    [{ 'cache-control': 's-maxage=60, stale-while-revalidate' }, 60, 100, 100],
    [{ 'cache-control': 's-maxage=60, stale-while-revalidate=300' }, 60, 100, 100],
    [{ 'cache-control': 's-maxage=60' }, 60, 100, 100],
    [{ 'cache-control': 'max-age=60, must-revalidate, stale-while-revalidate=30' }, 60, 0, 100],
    [{ 'cache-control': 'private', 'cdn-cache-control': 'max-age=60' }, 60, 0],
    [{ expires: new Date(60_000).toUTCString(), date: new Date(0).toUTCString() }, 60, 0],
  ] as const) {
    const verdict = judged(headers as Record<string, string>, 200, most);
    assert.deepEqual(verdict, { revalidateSeconds, staleSeconds, tags: [] }, JSON.stringify(headers));
  }
  const tagged = judged({ 'cache-control': 's-maxage=1', 'cache-tag': 'b, a', 'surrogate-key': 'c  a' });
  assert.deepEqual('tags' in tagged && tagged.tags, ['a', 'b', 'c']);
});

test('fields of one connection, moment or request are not stored', () => {
  const fields = storedFields(
    new Headers({ 'content-type': 'text/html', connection: 'close, x-hop', 'x-hop': '1', age: '3', 'x-kept': 'a' }),
  );
  assert.deepEqual(fields, { 'content-type': ['text/html'], 'x-kept': ['a'] });
});
