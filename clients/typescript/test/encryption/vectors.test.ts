/** The format of encrypted attributes: spec/vectors/encryption.json. */

import assert from 'node:assert/strict';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { encrypt } from '../../src/encryption/envelope.js';
import { envelopeEncryption, KeyFile } from '../../src/encryption/index.js';
import { additionalData } from '../../src/encryption/location.js';
import { InvalidPlaintext, parsePlaintext, plaintextOf } from '../../src/encryption/plaintext.js';
import { type ItemLocation, TheorydbError } from '../../src/index.js';
import { specFile } from '../spec.js';
import { FixedKeys, newPath } from './keys.js';

/** An attribute in DynamoDB's JSON, with bytes in base64. */
type Json = Record<string, unknown>;

interface Place {
  name: string;
  table: string;
  key: { name: string; value: Json }[];
  attribute: string;
  data_key: string;
  stored: Json;
}

interface Vectors {
  attributes: (Place & { value: Json; additional_data: string; plaintext: string })[];
  refused: (Place & { error: string })[];
  plaintexts: { name: string; plaintext: string; canonical?: string; error?: string }[];
  key_files: { name: string; text: string; edk: string; data_key?: string; error?: string }[];
}

const vectors: Vectors = JSON.parse(readFileSync(specFile('vectors/encryption.json'), 'utf8'));

/** Converts an attribute to the SDK's form. */
function attribute(json: Json): AttributeValue {
  return parsePlaintext(Buffer.from(JSON.stringify(json)));
}

function locationOf({ table, key }: Place): ItemLocation {
  return { table, key: key.map(({ name, value }) => [name, attribute(value)] as const) };
}

function openStored(vector: Place): Promise<Record<string, AttributeValue>> {
  const keys = new FixedKeys(Buffer.from(vector.data_key, 'hex'));
  return envelopeEncryption(keys).open(locationOf(vector), { [vector.attribute]: attribute(vector.stored) });
}

/** Returns the code of an error, undefined for none. */
async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    if (error instanceof TheorydbError) return error.code;
    throw error;
  }
}

for (const vector of vectors.attributes) {
  test(`attribute: ${vector.name}`, async () => {
    const ad = additionalData(locationOf(vector), vector.attribute);
    assert.equal(ad.toString('hex'), vector.additional_data);
    assert.equal(plaintextOf(attribute(vector.value)), vector.plaintext);
    const { nonce, ct } = attribute(vector.stored).M ?? {};
    const key = Buffer.from(vector.data_key, 'hex');
    const encrypted = encrypt(key, nonce?.B ?? new Uint8Array(), ad, Buffer.from(vector.plaintext));
    assert.deepEqual(encrypted.toString('hex'), Buffer.from(ct?.B ?? []).toString('hex'));
    const opened = (await openStored(vector))[vector.attribute];
    assert.equal(opened && plaintextOf(opened), vector.plaintext);
  });
}

for (const vector of vectors.refused) {
  test(`refused: ${vector.name}`, async () => {
    assert.equal(await codeOf(openStored(vector)), vector.error);
  });
}

for (const vector of vectors.plaintexts) {
  test(`plaintext: ${vector.name}`, () => {
    const parse = () => plaintextOf(parsePlaintext(Buffer.from(vector.plaintext)));
    if (vector.error === undefined) assert.equal(parse(), vector.canonical);
    else assert.throws(parse, InvalidPlaintext);
  });
}

for (const vector of vectors.key_files) {
  test(`key file: ${vector.name}`, async (t) => {
    const file = newPath(t);
    writeFileSync(file, vector.text);
    chmodSync(file, 0o600);
    const opening = KeyFile.open(file).then((keys) => keys.openDataKey(Buffer.from(vector.edk, 'base64')));
    assert.equal(await codeOf(opening), vector.error);
    if (vector.error === undefined) assert.equal(Buffer.from(await opening).toString('hex'), vector.data_key);
  });
}
