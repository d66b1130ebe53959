/** Images of DynamoDB Streams, with the rules of tabletheory.DB.UnmarshalStreamImage in Go. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { envelopeEncryption } from '../src/encryption/index.js';
import {
  defineModel,
  InvalidInputError,
  InvalidModelError,
  MalformedRowError,
  NotEncryptedError,
  TheorydbClient,
  unmarshalStreamImage,
  unmarshalStreamRecord,
} from '../src/index.js';

/** An attribute of each type. */
const streamed = defineModel({
  name: 'Streamed',
  table: { name: 'streamed' },
  keys: { partition: { attribute: 'id', type: 'S' }, sort: { attribute: 'at', type: 'N' } },
  attributes: [
    { attribute: 'id', type: 'S' },
    { attribute: 'at', type: 'N' },
    { attribute: 'number', type: 'N', as: 'bigint', optional: true },
    { attribute: 'binary', type: 'B', optional: true },
    { attribute: 'flag', type: 'BOOL', optional: true },
    { attribute: 'texts', type: 'SS', optional: true },
    { attribute: 'numbers', type: 'NS', as: 'string', optional: true },
    { attribute: 'blobs', type: 'BS', optional: true },
    { attribute: 'list', type: 'L', optional: true },
    { attribute: 'map', type: 'M', optional: true },
    { attribute: 'nothing', type: 'NULL', optional: true },
    { attribute: 'version', type: 'N', roles: ['version'] },
  ],
});

const keys = { id: { S: 'a' }, at: { N: '7' } };

/** A record as AWS Lambda sends it. */
const record = JSON.parse(`{"eventName": "MODIFY", "eventSource": "aws:dynamodb", "dynamodb": {
  "SequenceNumber": "1", "StreamViewType": "NEW_AND_OLD_IMAGES", "Keys": {"id": {"S": "a"}, "at": {"N": "7"}},
  "NewImage": {
    "id": {"S": "a"}, "at": {"N": "7"}, "number": {"N": "9007199254740993"}, "binary": {"B": "AAH/"}, "flag": {"BOOL": false},
    "texts": {"SS": ["x", "y"]}, "numbers": {"NS": ["1", "9007199254740993.5"]}, "blobs": {"BS": ["AA=="]},
    "list": {"L": [{"N": "9007199254740993"}, {"NULL": true}, {"L": [{"S": ""}]}, {"B": "AA=="}]},
    "map": {"M": {"a": {"M": {"b": {"N": "1"}}}, "__proto__": {"S": "own"}}}, "nothing": {"NULL": true}, "version": {"N": "2"}, "other": {"S": "ignored"}},
  "OldImage": {"id": {"S": "a"}, "at": {"N": "7"}}
}}`);

test('the images of a record have the values that reads return', () => {
  const { keys, newImage, oldImage } = unmarshalStreamRecord(streamed, record);
  assert.deepEqual(keys, { id: 'a', at: 7 });
  assert.deepEqual(oldImage, { id: 'a', at: 7, version: 0 });
  const { map, ...others } = newImage ?? {};
  assert.deepEqual(others, {
    id: 'a',
    at: 7,
    number: 9007199254740993n,
    binary: Uint8Array.of(0, 1, 255),
    flag: false,
    texts: new Set(['x', 'y']),
    numbers: new Set(['1', '9007199254740993.5']),
    blobs: new Set([Uint8Array.of(0)]),
    list: [9007199254740993n, null, [''], Uint8Array.of(0)],
    nothing: null,
    version: 2,
  });
  assert.deepEqual(Object.entries(map ?? {}), [
    ['a', { b: 1 }],
    ['__proto__', 'own'],
  ]);
  assert.deepEqual(unmarshalStreamImage(streamed, record.dynamodb.NewImage), newImage);
});

test('a record has what its stream shows', () => {
  assert.deepEqual(unmarshalStreamRecord(streamed, { dynamodb: { Keys: keys } }), { keys: { id: 'a', at: 7 } });
  assert.deepEqual(unmarshalStreamRecord(streamed, { dynamodb: { NewImage: { ...keys }, OldImage: undefined } }), {
    newImage: { id: 'a', at: 7, version: 0 },
  });
  assert.deepEqual(unmarshalStreamRecord(streamed, { dynamodb: {} }), {});
});

test('images of GetRecords have bytes, and an empty value is NULL', () => {
  const binary = Uint8Array.of(1, 2);
  const image = {
    ...keys,
    binary: { B: binary },
    blobs: { BS: [binary] },
    number: {},
    flag: null,
    texts: { S: undefined },
  };
  assert.deepEqual(unmarshalStreamImage(streamed, image), {
    id: 'a',
    at: 7,
    binary,
    blobs: new Set([binary]),
    version: 0,
  });
  assert.deepEqual(unmarshalStreamImage(streamed, { ...keys, binary: { B: '' } }).binary, new Uint8Array());
});

test('an image of another type fails like an item', () => {
  for (const image of [
    { ...keys, flag: { S: 'a' } },
    { id: { S: 'a' } },
    { ...keys, id: {} },
    { ...keys, at: { N: 'x' } },
  ]) {
    assert.throws(() => unmarshalStreamImage(streamed, image), MalformedRowError);
  }
  assert.throws(() => unmarshalStreamRecord(streamed, { dynamodb: { Keys: { id: { S: 'a' } } } }), MalformedRowError);
});

const deep = (levels: number): unknown => {
  let value: unknown = { S: 'deep' };
  for (let i = 0; i < levels; i++) value = i % 2 === 0 ? { L: [value] } : { M: { m: value } };
  return value;
};

test('the deepest document of DynamoDB is decoded', () => {
  const { list } = unmarshalStreamImage(streamed, { ...keys, list: deep(31) as object });
  assert.match(JSON.stringify(list), /"deep"/);
});

const noImages: readonly [name: string, value: unknown][] = [
  ['a plain value', 'text'],
  ['a number', 7],
  ['two types', { S: 'a', N: '1' }],
  ['an unknown type', { X: 'a' }],
  ['a name of the prototype', { toString: 'a' }],
  ['a string that is none', { S: 7 }],
  ['a number that is none', { N: 7 }],
  ['bytes that are not base64', { B: 'a!' }],
  ['base64 without its end', { B: 'AAA' }],
  ['a boolean that is none', { BOOL: 'true' }],
  ['NULL that is false', { NULL: false }],
  ['a set that is none', { SS: 'a' }],
  ['a set of others', { NS: [1] }],
  ['a set of bytes that are none', { BS: [1] }],
  ['a list that is none', { L: {} }],
  ['a list of plain values', { L: ['a'] }],
  ['a map that is none', { M: [] }],
  ['a map of plain values', { M: { a: 1 } }],
  ['a document without end', deep(100_000)],
];

for (const [name, value] of noImages) {
  test(`no image: ${name}`, async () => {
    for (const attribute of ['list', 'other']) {
      const image = { ...keys, [attribute]: value };
      assert.throws(() => unmarshalStreamImage(streamed, image), InvalidInputError);
      assert.throws(() => unmarshalStreamRecord(streamed, { dynamodb: { OldImage: image } }), InvalidInputError);
    }
  });
}

test('no record', async () => {
  for (const record of [undefined, null, {}, { dynamodb: null }, { dynamodb: 'a' }, { Records: [] }]) {
    assert.throws(() => unmarshalStreamRecord(streamed, record as never), InvalidInputError);
  }
  for (const image of [undefined, null, [], 'a']) {
    assert.throws(() => unmarshalStreamImage(streamed, image as never), InvalidInputError);
  }
});

test('encrypted attributes are decrypted with the keys of a client', async () => {
  const letter = defineModel({
    name: 'Letter',
    table: { name: 'letters' },
    keys: { partition: { attribute: 'id', type: 'S' } },
    attributes: [
      { attribute: 'id', type: 'S' },
      { attribute: 'text', type: 'S', encrypted: true },
    ],
  });
  const encryption = envelopeEncryption({
    newDataKey: async () => ({ plain: new Uint8Array(32).fill(1), sealed: Buffer.from('sealed') }),
    openDataKey: async () => new Uint8Array(32).fill(1),
  });
  const ddb = new DynamoDBClient({ region: 'us-east-1' });
  const client = new TheorydbClient(ddb, { models: [letter, streamed], encryption });
  const id = { S: '1' };
  const sealed = await encryption.seal({ table: 'letters', key: [['id', id]] }, { text: { S: 'secret' } });
  const members = Object.entries(sealed['text']?.M ?? {}).map(([name, value]) => {
    return [name, value.B ? { B: Buffer.from(value.B).toString('base64') } : value] as const;
  });
  const event = { Keys: { id }, NewImage: { id, text: { M: Object.fromEntries(members) } } };
  const opened = { id: '1', text: 'secret' };
  assert.deepEqual(await unmarshalStreamImage(letter, event.NewImage, client), opened);
  assert.deepEqual(await unmarshalStreamRecord(letter, { dynamodb: event }, client), {
    keys: { id: '1' },
    newImage: opened,
  });
  assert.throws(() => unmarshalStreamImage(letter, event.NewImage), InvalidModelError);
  await assert.rejects(unmarshalStreamImage(letter, { id, text: { S: 'plain' } }, client), NotEncryptedError);
  await assert.rejects(unmarshalStreamRecord(letter, {}, client), InvalidInputError);
  await assert.rejects(unmarshalStreamImage(letter, event.NewImage, new TheorydbClient(ddb)), InvalidModelError);
  assert.deepEqual(await unmarshalStreamImage(streamed, keys, client), { id: 'a', at: 7, version: 0 });
});
