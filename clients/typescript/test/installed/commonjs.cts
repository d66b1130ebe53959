// A program in CommonJS: its imports are calls of require().
import assert from 'node:assert/strict';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { defineModel, ItemNotFoundError, TheorydbClient } from '@facetheory/tabletheory';
import { envelopeEncryption } from '@facetheory/tabletheory/encryption';
import { createFaceTheoryIsrMetaStore } from '@facetheory/tabletheory/facetheory';
import { LeaseManager } from '@facetheory/tabletheory/lease';
import { transitionReleaseState } from '@facetheory/tabletheory/release-state';

const tableName = process.env.FACETHEORY_CACHE_TABLE_NAME!;
const song = defineModel({
  name: 'Song',
  table: { name: tableName },
  keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
  attributes: [
    { attribute: 'pk', type: 'S' },
    { attribute: 'sk', type: 'S' },
  ],
});

async function main(): Promise<void> {
  const ddb = new DynamoDBClient();
  const client = new TheorydbClient(ddb, { models: [song] });
  await assert.rejects(client.get('Song', { pk: 'commonjs', sk: 'missing' }), ItemNotFoundError);
  const isr = createFaceTheoryIsrMetaStore({ ddb, tableName });
  assert.equal(await isr.get({ cacheKey: 'example.com/commonjs' }), null);
  // One copy of each class, however it is loaded.
  const imported = await import('@facetheory/tabletheory');
  assert.equal(imported.ItemNotFoundError, ItemNotFoundError);
  assert.equal(imported.LeaseManager, LeaseManager);
  assert.deepEqual([typeof envelopeEncryption, typeof transitionReleaseState], ['function', 'function']);
  console.log('required');
}

main();
