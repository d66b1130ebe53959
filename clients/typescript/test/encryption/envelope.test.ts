/** Envelopes: cases that the vectors cannot express. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { envelopeEncryption, type KeyProvider } from '../../src/encryption/index.js';
import {
  InvalidInputError,
  type ItemLocation,
  KeyProviderError,
  TamperedError,
  UnknownKeyError,
} from '../../src/index.js';
import { FixedKeys } from './keys.js';

const home: ItemLocation = { table: 'users', key: [['pk', { S: 'USER#1' }]] };

test('the attributes of an item share a data key, and not their nonces', async () => {
  const keys = new FixedKeys();
  const encryption = envelopeEncryption(keys);
  const sealed = await encryption.seal(home, { a: { S: 'x' }, b: { S: 'x' } });
  assert.notDeepEqual(sealed['a']?.M?.['nonce'], sealed['b']?.M?.['nonce']);
  const again = await encryption.seal(home, { a: { S: 'x' } });
  assert.notDeepEqual(again['a']?.M?.['nonce'], sealed['a']?.M?.['nonce']);
  assert.deepEqual(await encryption.open(home, sealed), { a: { S: 'x' }, b: { S: 'x' } });
  assert.deepEqual([keys.made, keys.opened], [2, 1]);
});

test('attributes of different writes have different data keys', async () => {
  const one = envelopeEncryption(new FixedKeys(new Uint8Array(32).fill(1), Buffer.from('one')));
  const two = envelopeEncryption(new FixedKeys(new Uint8Array(32).fill(2), Buffer.from('two')));
  const sealed = { ...(await one.seal(home, { a: { S: 'x' } })), ...(await two.seal(home, { b: { S: 'y' } })) };
  const both: KeyProvider = {
    newDataKey: () => Promise.reject(new Error('not needed')),
    openDataKey: async (edk) => new Uint8Array(32).fill(Buffer.from(edk).toString() === 'one' ? 1 : 2),
  };
  assert.deepEqual(await envelopeEncryption(both).open(home, sealed), { a: { S: 'x' }, b: { S: 'y' } });
});

test('data keys are wiped, after errors too', async () => {
  const keys = new FixedKeys();
  const encryption = envelopeEncryption(keys);
  const sealed = await encryption.seal(home, { a: { S: 'x' } });
  await encryption.open(home, sealed);
  await assert.rejects(encryption.open({ ...home, table: 'others' }, sealed), TamperedError);
  await assert.rejects(encryption.seal({ table: 't', key: [['pk', { BOOL: true }]] }, { a: { S: 'x' } }));
  assert.equal(keys.given.length, 4);
  for (const key of keys.given) assert.deepEqual(key, new Uint8Array(32));
});

test('keys of a wrong size are refused', async () => {
  for (const [keys, expected] of [
    [new FixedKeys(new Uint8Array(31)), /data key of 31 bytes/],
    [new FixedKeys(new Uint8Array(33)), /data key of 33 bytes/],
    [new FixedKeys(undefined, new Uint8Array()), /sealed data key of 0 bytes/],
    [new FixedKeys(undefined, new Uint8Array(6145)), /sealed data key of 6145 bytes/],
  ] as const) {
    await assert.rejects(envelopeEncryption(keys).seal(home, { a: { S: 'x' } }), (error: Error) => {
      assert.match(error.message, expected);
      return error instanceof KeyProviderError;
    });
  }
  const sealed = await envelopeEncryption(new FixedKeys()).seal(home, { a: { S: 'x' } });
  await assert.rejects(envelopeEncryption(new FixedKeys(new Uint8Array(16))).open(home, sealed), KeyProviderError);
});

test('values that DynamoDB could not store are not encrypted', async () => {
  let deep: AttributeValue = { S: '' };
  for (let i = 0; i < 32; i++) deep = { L: [deep] };
  const encryption = envelopeEncryption(new FixedKeys());
  await encryption.seal(home, { a: deep.L?.[0] ?? { S: '' } });
  for (const value of [
    deep,
    { SS: [] },
    { SS: ['a', 'a'] },
    { NS: ['1', '1.0'] },
    { BS: [new Uint8Array([1]), new Uint8Array([1])] },
    { N: 'one' },
    { S: '\ud800' },
    { M: { '\ud800': { S: '' } } },
    { L: [{} as AttributeValue] },
    {} as AttributeValue,
  ]) {
    await assert.rejects(encryption.seal(home, { a: value }), (error: Error) => {
      assert.match(error.message, /^encrypt attribute "a" of item {pk="USER#1"} of table "users": the value contains/);
      return error instanceof InvalidInputError;
    });
  }
});

test("a provider's error gets the attribute's name; other errors stay", async () => {
  const sealed = await envelopeEncryption(new FixedKeys()).seal(home, { a: { S: 'x' } });
  for (const failure of [new UnknownKeyError('no such key'), new TamperedError('bad'), new Error('KMS is down')]) {
    const keys: KeyProvider = {
      newDataKey: () => Promise.reject(failure),
      openDataKey: () => Promise.reject(failure),
    };
    await assert.rejects(envelopeEncryption(keys).open(home, sealed), (error: Error) => {
      if (failure instanceof TamperedError || failure instanceof UnknownKeyError) {
        assert.equal(error.constructor, failure.constructor);
        assert.equal(error.cause, failure);
        assert.match(error.message, /^decrypt attribute "a" of item {pk="USER#1"} of table "users": /);
      } else {
        assert.equal(error, failure);
      }
      return true;
    });
    await assert.rejects(envelopeEncryption(keys).seal(home, { a: { S: 'x' } }), failure);
  }
});
