import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type PageCacheOptions, settingsOf } from '../../src/web/options.js';
import { project } from '../../src/web/projection.js';

const base = { hosts: ['example.com'], tableName: 't', bucket: 'b', query: ['page'], ignoreCookies: ['theme*'] };
const environment = { AWS_REGION: 'us-east-1' };

function projected(url: string, init: RequestInit = {}) {
  return project(new Request(url, init), settingsOf(base, environment));
}

test('the key and the rendering request', () => {
  for (const [url, key] of [
    ['http://example.com/', 'example.com/'],
    ['https://EXAMPLE.com:443/a/../b%7Ec', 'example.com/b~c'],
    ['http://example.com/?page=2&utm_source=x&gclid=y', 'example.com/?page=2'],
    ['http://example.com//evil.test/x', 'example.com//evil.test/x'],
    ['http://example.com/a%23b%3Fc', 'example.com/a%23b%3Fc'],
  ] as const) {
    const p = projected(url, { headers: { cookie: '_ga=1; theme_dark=1', 'x-forwarded-host': 'evil.test' } });
    assert.ok('cacheKey' in p, url);
    assert.equal(p.cacheKey, key);
    assert.equal(p.rendered.url.replace(/^https?:\/\//, ''), key);
    assert.deepEqual([...p.rendered.headers.keys()].sort(), ['accept', 'accept-encoding', 'user-agent']);
  }
});

test('what passes through', () => {
  for (const [reason, url, init] of [
    ['method', 'http://example.com/', { method: 'POST' }],
    ['authorization', 'http://example.com/', { headers: { authorization: 'Bearer x' } }],
    ['cookie', 'http://example.com/', { headers: { cookie: '_ga=1; session=1' } }],
    ['tenant', 'http://example.com/', { headers: { 'x-tenant': 'a' } }],
    ['host', 'http://evil.test/', {}],
    ['host', 'http://example.com:8080/', {}],
    ['query', 'http://example.com/?page=1&debug=1', {}],
    ['key-length', `http://example.com/${'x'.repeat(5000)}`, {}],
  ] as const) {
    assert.deepEqual(projected(url, init), { bypass: reason }, url.slice(0, 80));
  }
});

test('invalid options name what is wrong', () => {
  for (const [options, text] of [
    [{ hosts: [] }, /hosts must name 1 to 100/],
    [{ hosts: ['not a host'] }, /not a host/],
    [{ tableName: '' }, /tableName is missing: set FACETHEORY_CACHE_TABLE_NAME/],
    [{ memoryBytes: -1 }, /memoryBytes must be a whole number of bytes/],
    [{ maxBodyBytes: 65 << 20 }, /maxBodyBytes must be .* from 1 to 67108864/],
    [{ leaseSeconds: 0 }, /leaseSeconds must be at least 1/],
    [{ retentionSeconds: 60 }, /retentionSeconds must be at least 172800/],
  ] as const) {
    assert.throws(() => settingsOf({ ...base, ...options } as PageCacheOptions, environment), text);
  }
});
