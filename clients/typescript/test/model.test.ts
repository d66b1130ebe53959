import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  defineModel,
  type InputOf,
  InvalidModelError,
  type ItemOf,
  type KeyOf,
  type ModelDefinition,
} from '../src/index.js';

const good = {
  name: 'Song',
  table: { name: 'songs' },
  keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'n', type: 'N' } },
  attributes: [
    { attribute: 'pk', type: 'S', roles: ['pk'] },
    { attribute: 'n', type: 'N', roles: ['sk'] },
    { attribute: 'large', type: 'N', as: 'bigint', optional: true },
    { attribute: 'exact', type: 'N', as: 'string', omit_empty: true },
    { attribute: 'body', type: 'B', required: true },
    { attribute: 'done', type: 'BOOL' },
    { attribute: 'tags', type: 'SS', optional: true },
    { attribute: 'version', type: 'N', roles: ['version'] },
  ],
} as const satisfies ModelDefinition;

const song = defineModel(good);

/** True if and only if the two types are identical. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <_ extends true>() => undefined;

test('item types are inferred from the model', () => {
  interface Common {
    pk: string;
    n: number;
    body: Uint8Array;
    done: boolean;
    large?: bigint | undefined;
    exact?: string | undefined;
    tags?: Set<string> | undefined;
  }
  type Flat<T> = { [K in keyof T]: T[K] };
  same<Same<ItemOf<typeof song>, Flat<Common & { version: number }>>>();
  same<Same<InputOf<typeof song>, Flat<Common & { version?: number | undefined }>>>();
  same<Same<KeyOf<typeof song>, { pk: string; n: number }>>();
  const item: ItemOf<typeof song> = { pk: 'p', n: 1, body: Uint8Array.of(), done: true, version: 1 };
  // @ts-expect-error A required attribute is missing.
  const lacking: InputOf<typeof song> = { pk: 'p', n: 1 };
  // @ts-expect-error The model does not declare this attribute.
  const superfluous: InputOf<typeof song> = { ...item, yaer: 1 };
  assert.deepEqual([item.version, Object.keys(lacking).length, superfluous.n], [1, 2, 1]);
});

test('a model exposes its keys, version and table', () => {
  assert.deepEqual(
    song.keys.map((key) => key.attribute),
    ['pk', 'n'],
  );
  assert.equal(song.version?.attribute, 'version');
  assert.equal(song.tableName, 'songs');
});

test('invalid models are rejected with the name of the offending part', () => {
  const pk = { attribute: 'pk', type: 'S' };
  const base = { name: 'M', table: { name: 't' }, keys: { partition: pk }, attributes: [pk] };
  const refused: [RegExp, object | undefined][] = [
    [/name is missing/, { ...base, name: '' }],
    [/name is missing/, undefined],
    [/table.name is empty/, { ...base, table: { name: undefined } }],
    [/keys.partition is missing/, { ...base, keys: {} }],
    [/the key id is not among the attributes/, { ...base, keys: { partition: { attribute: 'id', type: 'S' } } }],
    [
      /the key pk has the type N, but its attribute S/,
      { ...base, keys: { partition: { attribute: 'pk', type: 'N' } } },
    ],
    [
      /expected S, N or B/,
      {
        ...base,
        keys: { partition: { attribute: 'b', type: 'BOOL' } },
        attributes: [{ attribute: 'b', type: 'BOOL' }],
      },
    ],
    [/pk is both the partition key and the sort key/, { ...base, keys: { partition: pk, sort: pk } }],
    [/pk is declared twice/, { ...base, attributes: [pk, pk] }],
    [/attributes\[1\].attribute is missing/, { ...base, attributes: [pk, { type: 'S' }] }],
    [/has the type X/, { ...base, attributes: [pk, { attribute: 'a', type: 'X' }] }],
    [
      /both required and optional/,
      { ...base, attributes: [pk, { attribute: 'a', type: 'S', required: true, optional: true }] },
    ],
    [/has as: float/, { ...base, attributes: [pk, { attribute: 'a', type: 'N', as: 'float' }] }],
    [/only the types N and NS/, { ...base, attributes: [pk, { attribute: 'a', type: 'S', as: 'bigint' }] }],
    [/has the role owner/, { ...base, attributes: [pk, { attribute: 'a', type: 'S', roles: ['owner'] }] }],
    [/needs the type N/, { ...base, attributes: [pk, { attribute: 'a', type: 'S', roles: ['ttl'] }] }],
    [
      /a has the role pk, which belongs to pk/,
      { ...base, attributes: [pk, { attribute: 'a', type: 'S', roles: ['pk'] }] },
    ],
    [
      /a has the role sk, which belongs to no attribute/,
      { ...base, attributes: [pk, { attribute: 'a', type: 'S', roles: ['sk'] }] },
    ],
    [
      /a and b both have the role version/,
      {
        ...base,
        attributes: [
          pk,
          { attribute: 'a', type: 'N', roles: ['version'] },
          { attribute: 'b', type: 'N', roles: ['version'] },
        ],
      },
    ],
    [/the key pk cannot be optional/, { ...base, attributes: [{ ...pk, optional: true }] }],
    [
      /index i: the key x is not/,
      { ...base, indexes: [{ name: 'i', type: 'GSI', partition: { attribute: 'x', type: 'S' } }] },
    ],
    [/index i is declared twice/, { ...base, indexes: [1, 2].map(() => ({ name: 'i', type: 'GSI', partition: pk })) }],
  ];
  for (const [message, definition] of refused) {
    assert.throws(
      () => defineModel(definition as unknown as ModelDefinition),
      (error: Error) => error instanceof InvalidModelError && message.test(error.message),
      String(message),
    );
  }
});
