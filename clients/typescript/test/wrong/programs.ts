/**
 * Programs that the compiler must reject, one per line after a `@ts-expect-error`: tsc
 * fails at each one that it accepts.
 */

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { KMSClient } from '@aws-sdk/client-kms';

import { KmsKeys } from '../../src/encryption/kms.js';
import { defineModel, TheorydbClient } from '../../src/index.js';

const song = defineModel({
  name: 'Song',
  table: { name: 't' },
  keys: { partition: { attribute: 'artist', type: 'S' }, sort: { attribute: 'year', type: 'N' } },
  attributes: [
    { attribute: 'artist', type: 'S' },
    { attribute: 'year', type: 'N' },
    { attribute: 'genre', type: 'S', optional: true },
    { attribute: 'plays', type: 'N', as: 'bigint', optional: true },
    { attribute: 'tags', type: 'SS', optional: true },
    { attribute: 'notes', type: 'S', encrypted: true, optional: true },
    { attribute: 'fees', type: 'N', encrypted: true, optional: true },
    { attribute: 'version', type: 'N', roles: ['version'] },
    { attribute: 'changed', type: 'S', roles: ['updated_at'] },
  ],
  indexes: [
    {
      name: 'byGenre',
      type: 'GSI',
      partition: { attribute: 'genre', type: 'S' },
      sort: { attribute: 'plays', type: 'N' },
    },
    { name: 'byTitle', type: 'GSI', partition: { attribute: 'artist', type: 'S' } },
  ],
});

/** It is compiled, not run. */
export async function wrong(ddb: DynamoDBClient, kms: KMSClient): Promise<void> {
  const client = new TheorydbClient(ddb, { models: [song] });
  const key = { artist: 'Nina Simone', year: 1965 };

  // Keys.
  await client.get('Song', key);
  // @ts-expect-error: the sort key is missing
  await client.get('Song', { artist: 'a' });
  // @ts-expect-error: the sort key is a number
  await client.get('Song', { artist: 'a', year: '1965' });
  // @ts-expect-error: no such model
  await client.get('Songs', key);

  // Items. Versions and times need not be given.
  await client.create('Song', key);
  // @ts-expect-error: the sort key is missing
  await client.create('Song', { artist: 'a' });
  // @ts-expect-error: genre is a string
  await client.create('Song', { ...key, genre: 1 });
  // @ts-expect-error: no such attribute
  await client.create('Song', { ...key, gerne: 'jazz' });
  // @ts-expect-error: genre may be missing
  (await client.get('Song', key)).genre.length;

  // Queries of the table.
  await client.query('Song').partitionKey('a').sortKey('between', 1960, 1969).all();
  // @ts-expect-error: the partition key is a string
  client.query('Song').partitionKey(1);
  // @ts-expect-error: the sort key is a number
  client.query('Song').sortKey('=', '1965');
  // @ts-expect-error: between takes two values
  client.query('Song').sortKey('between', 1960);
  // @ts-expect-error: numbers have no prefixes
  client.query('Song').sortKey('begins_with', 19);

  // Queries of indexes.
  await client.query('Song').usingIndex('byGenre').partitionKey('jazz').sortKey('>', 1n).all();
  // @ts-expect-error: no such index
  client.query('Song').usingIndex('byYear');
  // @ts-expect-error: the sort key of the index is a bigint
  client.query('Song').usingIndex('byGenre').sortKey('>', 1);
  // @ts-expect-error: the index has no sort key
  client.query('Song').usingIndex('byTitle').sortKey('>', 1);

  // Filters.
  client.query('Song').filter((f) => f.or(f.where('genre', 'exists'), f.not(f.where('tags', 'contains', 'live'))));
  // @ts-expect-error: no such attribute
  client.query('Song').filter('gerne', '=', 'jazz');
  // @ts-expect-error: no such operator
  client.query('Song').filter('genre', 'like', 'jazz');
  // @ts-expect-error: genre is a string
  client.query('Song').filter('genre', '=', 1);
  // @ts-expect-error: exists takes no value
  client.query('Song').filter('genre', 'exists', true);
  // @ts-expect-error: in takes at least one value
  client.scan('Song').filter('genre', 'in');
  // @ts-expect-error: a member of tags is a string
  client.scan('Song').filter((f) => f.where('tags', 'contains', 1));
  // @ts-expect-error: keys are not filtered
  client.query('Song').filter('artist', '=', 'a');
  const old = client.query('Song').filter('genre', '=', 'jazz').orFilter('plays', '>', 9n);
  // @ts-expect-error: genre is a string
  old.orFilter('genre', '=', 1);
  // @ts-expect-error: no such attribute in a group
  old.filterGroup((g) => g.filter('gerne', '=', 'jazz'));
  // @ts-expect-error: of an encrypted attribute only its existence is known
  client.scan('Song').orFilterGroup((g) => g.filter('notes', '=', 'a'));
  // @ts-expect-error: no such attribute
  old.projection(['gerne']);
  const [named] = await old.projection(['genre']).all();
  // @ts-expect-error: the year was not read
  named?.year;

  // Projections.
  const [part] = await client.query('Song').partitionKey('a').select('year', 'genre').all();
  part?.year.toFixed();
  // @ts-expect-error: plays was not read
  part?.plays;
  // @ts-expect-error: no such attribute
  client.scan('Song').select('gerne');

  // Updates.
  await client.update('Song', key, (u) =>
    u
      .set('genre', 'jazz')
      .add('plays', 1n)
      .add('tags', new Set(['live'])),
  );
  await client.update('Song', { ...key, genre: 'jazz' }, ['genre']);
  // @ts-expect-error: no such attribute
  await client.update('Song', key, ['gerne']);
  // @ts-expect-error: a key cannot be changed
  await client.update('Song', key, (u) => u.set('artist', 'b'));
  // @ts-expect-error: genre is a string
  await client.update('Song', key, (u) => u.set('genre', 1));
  // @ts-expect-error: a string cannot be added to
  await client.update('Song', key, (u) => u.add('genre', 'x'));
  // @ts-expect-error: plays is a bigint
  await client.upsert('Song', key, (u) => u.add('plays', 1));
  // @ts-expect-error: delete takes members of a set
  await client.update('Song', key, (u) => u.delete('plays', 1n));
  // @ts-expect-error: the index of an action must be one of the models
  await client.transactWrite([{ kind: 'delete', model: 'Songs', key }]);

  // Encrypted attributes.
  await client.create('Song', { ...key, notes: 'x', fees: 1 });
  await client.update('Song', key, (u) => u.set('notes', 'x').remove('fees'));
  client
    .scan('Song')
    .filter('notes', 'exists')
    .filter((f) => f.where('fees', 'not_exists'));
  // @ts-expect-error: notes is a string
  await client.create('Song', { ...key, notes: 1 });
  // @ts-expect-error: what is encrypted cannot be compared
  client.query('Song').filter('notes', '=', 'x');
  // @ts-expect-error: what is encrypted cannot be compared
  client.scan('Song').filter((f) => f.where('fees', '>', 1));
  // @ts-expect-error: what is encrypted cannot be added to
  await client.update('Song', key, (u) => u.add('fees', 1));
  // @ts-expect-error: DynamoDB cannot read what is encrypted
  await client.update('Song', key, (u) => u.ifNotExists('notes', 'x'));
  // @ts-expect-error: encryption is not a key provider
  new TheorydbClient(ddb, { models: [song], encryption: new KmsKeys(kms, 'alias/songs') });

  // Models.
  defineModel({
    name: 'Wrong',
    table: { name: 't' },
    // @ts-expect-error: a key is a string, a number or binary
    keys: { partition: { attribute: 'pk', type: 'BOOL' } },
    // @ts-expect-error: no such role
    attributes: [{ attribute: 'pk', type: 'S', roles: ['hash'] }],
  });
}
