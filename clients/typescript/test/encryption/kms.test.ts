/** Keys in AWS KMS, against an HTTP server that speaks its protocol. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import {
  DisabledException,
  GenerateDataKeyCommand,
  InvalidCiphertextException,
  NotFoundException,
} from '@aws-sdk/client-kms';

import { envelopeEncryption } from '../../src/encryption/index.js';
import { KmsKeys } from '../../src/encryption/kms.js';
import { type ItemLocation, TamperedError, UnknownKeyError } from '../../src/index.js';
import { arn, Failure, FakeKms } from './fakekms.js';

const home: ItemLocation = { table: 'users', key: [['pk', { S: 'USER#1' }]] };
const item = { secret: { S: 'x' } };

function edkOf(sealed: Record<string, AttributeValue>): Uint8Array {
  return sealed['secret']?.M?.['edk']?.B ?? new Uint8Array();
}

test('an attribute is sealed and opened by KMS', async (t) => {
  const kms = new FakeKms('key-1');
  const client = await kms.client(t);
  for (const id of ['key-1', arn('key-1')]) {
    const encryption = envelopeEncryption(new KmsKeys(client, id));
    const sealed = await encryption.seal(home, item);
    assert.equal(edkOf(sealed).length, 184);
    assert.deepEqual(await encryption.open(home, sealed), item);
  }
  assert.equal(kms.decrypts, 2);
});

test('after an alias was pointed to another key, the previous key must be named', async (t) => {
  const kms = new FakeKms('key-1', 'key-2');
  const client = await kms.client(t);
  kms.keys.set('alias/app', 'key-1');
  const former = await envelopeEncryption(new KmsKeys(client, 'alias/app')).seal(home, item);
  kms.keys.set('alias/app', 'key-2');
  await assert.rejects(envelopeEncryption(new KmsKeys(client, 'alias/app')).open(home, former), (error: Error) => {
    assert.ok(error instanceof UnknownKeyError);
    return error.message.includes('alias/app; pass the ID of the previous key to KmsKeys');
  });
  const both = envelopeEncryption(new KmsKeys(client, 'alias/app', 'key-1'));
  const current = await both.seal(home, item);
  for (const sealed of [former, current]) assert.deepEqual(await both.open(home, sealed), item);
  assert.deepEqual(await envelopeEncryption(new KmsKeys(client, 'key-2')).open(home, current), item);
});

test('a data key that another key sealed is refused, even if KMS would open it', async (t) => {
  const client = await new FakeKms('ours', 'theirs').client(t);
  const forged = await envelopeEncryption(new KmsKeys(client, 'theirs')).seal(home, item);
  await assert.rejects(envelopeEncryption(new KmsKeys(client, 'ours')).open(home, forged), UnknownKeyError);
});

test('a data key with another encryption context is refused', async (t) => {
  const client = await new FakeKms('key-1').client(t);
  const EncryptionContext = { purpose: 'another' };
  const made = await client.send(new GenerateDataKeyCommand({ KeyId: 'key-1', KeySpec: 'AES_256', EncryptionContext }));
  const opening = new KmsKeys(client, 'key-1').openDataKey(made.CiphertextBlob ?? new Uint8Array());
  await assert.rejects(opening, TamperedError);
});

test('a data key that was modified is refused', async (t) => {
  const client = await new FakeKms('key-1').client(t);
  const encryption = envelopeEncryption(new KmsKeys(client, 'key-1'));
  const sealed = await encryption.seal(home, item);
  const edk = edkOf(sealed);
  edk[7] = (edk[7] ?? 0) ^ 1;
  await assert.rejects(encryption.open(home, sealed), (error: Error) => {
    assert.ok(error instanceof TamperedError);
    assert.match(error.message, /^decrypt attribute "secret" of item/);
    return (error.cause as Error).cause instanceof InvalidCiphertextException;
  });
});

test("KMS's other errors stay, and no other key is tried after them", async (t) => {
  const kms = new FakeKms('key-1', 'key-2');
  const client = await kms.client(t);
  const sealed = await envelopeEncryption(new KmsKeys(client, 'key-1')).seal(home, item);
  const missing = envelopeEncryption(new KmsKeys(client, 'key-0'));
  await assert.rejects(missing.seal(home, item), NotFoundException);
  await assert.rejects(missing.open(home, sealed), NotFoundException);
  kms.failures.push(new Failure('DisabledException', 'key-1 is disabled.'));
  const before = kms.decrypts;
  await assert.rejects(envelopeEncryption(new KmsKeys(client, 'key-1', 'key-2')).open(home, sealed), DisabledException);
  assert.equal(kms.decrypts, before);
});

test('a throttled call is retried by the SDK, and a cancelled one is not sent', async (t) => {
  const kms = new FakeKms('key-1');
  const encryption = envelopeEncryption(new KmsKeys(await kms.client(t), 'key-1'));
  kms.failures.push(new Failure('ThrottlingException', 'Rate exceeded'));
  const sealed = await encryption.seal(home, item);
  kms.failures.push(new Failure('ThrottlingException', 'Rate exceeded'));
  assert.deepEqual(await encryption.open(home, sealed), item);
  const before = kms.decrypts;
  await assert.rejects(encryption.open(home, sealed, AbortSignal.abort()), { name: 'AbortError' });
  assert.equal(kms.decrypts, before);
});
