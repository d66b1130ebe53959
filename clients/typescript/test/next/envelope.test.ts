import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Value } from '../../src/next/contract.js';
import { decode, EnvelopeError, encode } from '../../src/next/envelope.js';

const odd = Buffer.from([0, 255, 254, 10, 13, 128]);

const values: Record<string, Value> = {
  'a page of the app router': {
    kind: 'APP_PAGE',
    html: '<p>ünï\u2028 "quoted"</p>',
    rscData: odd,
    headers: { 'x-next-cache-tags': '_N_T_/layout,list', 'set-many': ['a', 'b'] },
    status: 200,
    segmentData: new Map([
      ['/_tree', odd],
      ['/a/$d$slug', Buffer.alloc(0)],
    ]),
  },
  'the answer of a route handler': { kind: 'APP_ROUTE', body: odd, status: 201, headers: {} },
  'a page of the pages router': {
    kind: 'PAGES',
    html: '',
    pageData: { pageProps: { $buffer: 0, n: null, deep: [{ $map: [] }] } },
  },
  'a fetch': {
    kind: 'FETCH',
    data: { headers: { a: 'b' }, body: 'AA==', url: 'http://x/', status: 200 },
    tags: ['t'],
    revalidate: 60,
  },
  'a redirect': { kind: 'REDIRECT', props: { __N_REDIRECT: '/', __proto: 1 } },
  'an image': { kind: 'IMAGE', etag: 'e', upstreamEtag: 'u', buffer: odd, extension: 'webp' },
  'half of a surrogate pair': { kind: 'APP_PAGE', html: 'a\ud800b' },
  'no such page': null,
};

for (const [name, value] of Object.entries(values)) {
  test(`round-trips and encodes deterministically: ${name}`, () => {
    assert.deepEqual(decode(encode(value)), value);
    assert.deepEqual(encode(decode(encode(value))), encode(value));
  });
}

test('undefined, missing and empty members are different', () => {
  for (const value of [
    { kind: 'APP_PAGE', html: '', postponed: undefined, map: new Map([['a', undefined]]) },
    { kind: 'APP_PAGE', html: '', postponed: '' },
    { kind: 'APP_PAGE' },
  ] as const) {
    assert.deepStrictEqual(decode(encode(value)), value);
  }
});

test('truncated, extended and foreign bodies are rejected', () => {
  const whole = encode(values['a page of the app router'] as Value);
  for (let length = 0; length < whole.length; length++) {
    assert.throws(() => decode(whole.subarray(0, length)), EnvelopeError, `${length} of ${whole.length} bytes`);
  }
  assert.throws(() => decode(Buffer.concat([whole, Buffer.from('x')])), EnvelopeError);
  assert.throws(() => decode(Buffer.from('<html></html> and so on, as other services write it')), EnvelopeError);
});

test('a malformed head is rejected', () => {
  for (const head of [
    'null',
    '{}',
    '{"parts":[-1]}',
    '{"parts":["1"]}',
    '{"value":{"$buffer":0},"parts":[]}',
    '{"value":{"$map":[1]},"parts":[]}',
    '{',
  ]) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(head.length);
    assert.throws(
      () => decode(Buffer.concat([Buffer.from('FTNEXT1\n'), length, Buffer.from(head)])),
      EnvelopeError,
      head,
    );
  }
});
