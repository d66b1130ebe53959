import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { type PageCacheOptions, settingsOf } from '../../src/web/options.js';
import { project } from '../../src/web/projection.js';
import { specFile } from '../spec.js';

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

test('renders get the scheme of the site if it is given, and else the scheme of the request', () => {
  for (const [scheme, url, rendered, proto] of [
    [undefined, 'http://example.com/a', 'http://example.com/a', null],
    [undefined, 'https://example.com/a', 'https://example.com/a', null],
    ['https', 'http://example.com:443/a', 'https://example.com/a', 'https'],
    ['https', 'http://example.com./a', 'https://example.com/a', 'https'],
    ['http', 'https://example.com:80/a', 'http://example.com/a', 'http'],
  ] as const) {
    const settings = settingsOf({ ...base, ...(scheme ? { scheme } : {}) }, environment);
    const p = project(new Request(url, { headers: { 'x-forwarded-proto': 'gopher' } }), settings);
    assert.ok('cacheKey' in p, url);
    assert.deepEqual(
      [p.cacheKey, p.rendered.url, p.rendered.headers.get('x-forwarded-proto')],
      ['example.com/a', rendered, proto],
    );
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

/** spec/requests.json: what pages of all languages do not depend on, and what looks similar. */
const lists = JSON.parse(readFileSync(specFile('requests.json'), 'utf8')) as Record<
  'cookies' | 'parameters' | 'left_out',
  { name: string; kind?: string; where?: string }[]
>;

function bypassOf(url: string, cookie?: string, ignoreCookies: string[] = []) {
  const request = new Request(url, { headers: cookie === undefined ? {} : { cookie } });
  const p = project(request, settingsOf({ ...base, ignoreCookies }, environment));
  return 'bypass' in p ? p.bypass : p.cacheKey;
}

test('well-known cookies and parameters share the page', () => {
  for (const { name, kind } of lists.cookies) {
    const cookie = `${name}${kind === 'prefix' ? 'x1' : ''}=1`;
    assert.equal(bypassOf('http://example.com/a', cookie), 'example.com/a', cookie);
    assert.equal(bypassOf('http://example.com/a', `${cookie}; session=1`), 'cookie', cookie);
  }
  for (const { name, kind } of lists.parameters) {
    const url = `http://example.com/a?page=2&${name}${kind === 'prefix' ? 'x1' : ''}=1`;
    assert.equal(bypassOf(url), 'example.com/a?page=2', url);
  }
  for (const { name, where } of lists.left_out) {
    const got =
      where === 'cookie' ? bypassOf('http://example.com/a', `${name}=1`) : bypassOf(`http://example.com/a?${name}=1`);
    assert.equal(got, where === 'cookie' ? 'cookie' : 'query', name);
  }
});

test('a site takes a cookie or a parameter back', () => {
  const url = 'http://example.com/a';
  assert.equal(bypassOf(url, 'OptanonConsent=1', ['!OptanonConsent']), 'cookie');
  assert.equal(bypassOf(url, 'OptanonAlertBoxClosed=1', ['!OptanonConsent']), 'example.com/a');
  assert.equal(bypassOf(url, 'OptanonAlertBoxClosed=1', ['!Optanon*']), 'cookie');
  assert.equal(bypassOf(url, 'a=1; session=1', ['!session', '*']), 'cookie');
  assert.equal(bypassOf(url, 'a=1', ['*', '!session']), 'example.com/a');
  const p = project(new Request(`${url}?gclid=1`), settingsOf({ ...base, query: ['gclid'] }, environment));
  assert.deepEqual('cacheKey' in p && p.cacheKey, 'example.com/a?gclid=1');
});

test('invalid options name what is wrong', () => {
  for (const [options, text] of [
    [{ hosts: [] }, /hosts must name 1 to 100/],
    [{ hosts: ['not a host'] }, /not a host/],
    [{ tableName: '' }, /tableName is missing: set FACETHEORY_CACHE_TABLE_NAME/],
    [{ scheme: 'HTTPS' }, /scheme must be 'http' or 'https'.*\(got "HTTPS"\)/],
    [{ scheme: '' }, /scheme must be/],
    [{ memoryBytes: -1 }, /memoryBytes must be a whole number of bytes/],
    [{ maxBodyBytes: 65 << 20 }, /maxBodyBytes must be .* from 1 to 67108864/],
    [{ leaseSeconds: 0 }, /leaseSeconds must be at least 1/],
    [{ retentionSeconds: 60 }, /retentionSeconds must be at least 172800/],
  ] as const) {
    assert.throws(() => settingsOf({ ...base, ...options } as PageCacheOptions, environment), text);
  }
});
