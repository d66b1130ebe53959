// Writes or reads encrypted attributes with the TypeScript client; see encryption_test.go.
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { defineModel, TheorydbClient } from '@facetheory/tabletheory';
import { envelopeEncryption, KeyFile } from '@facetheory/tabletheory/encryption';

const [, , command, keyFile, table] = process.argv;
const secret = (attribute, type) => ({ attribute, type, encrypted: true });
const model = defineModel({
  name: 'Secret',
  table: { name: table },
  keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
  attributes: [
    { attribute: 'pk', type: 'S' },
    { attribute: 'sk', type: 'S' },
    secret('text', 'S'),
    secret('count', 'N'),
    secret('tags', 'SS'),
    secret('lines', 'L'),
    secret('raw', 'B'),
  ],
});
const keys = await KeyFile.open(keyFile);
const client = new TheorydbClient(new DynamoDBClient(), { models: [model], encryption: envelopeEncryption(keys) });
if (command === 'write') {
  await keys.rotate();
  await client.create('Secret', {
    pk: 'secrets',
    sk: 'typescript',
    text: 'Ünï€😀 by typescript',
    count: -1200,
    tags: new Set(['b', 'a', '😀', 'ﬁ']),
    lines: ['x', ''],
    raw: new Uint8Array([0, 255]),
  });
} else {
  for await (const { sk, text, count, tags, lines, raw } of client.query('Secret').partitionKey('secrets')) {
    console.log(JSON.stringify([sk, text, count, [...tags].sort(), lines, [...raw]]));
  }
}
