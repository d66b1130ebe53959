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

/** Compiles if and only if the two types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <_ extends true>() => undefined;

test('the types of items are inferred', () => {
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
  // @ts-expect-error A required attribute may not be missing.
  const lacking: InputOf<typeof song> = { pk: 'p', n: 1 };
  // @ts-expect-error An attribute that the model does not have.
  const superfluous: InputOf<typeof song> = { ...item, yaer: 1 };
  assert.deepEqual([item.version, Object.keys(lacking).length, superfluous.n], [1, 2, 1]);
});

test('a model tells what it was made of', () => {
  assert.deepEqual(
    song.keys.map((key) => key.attribute),
    ['pk', 'n'],
  );
  assert.equal(song.version?.attribute, 'version');
  assert.equal(song.tableName, 'songs');
});

test('a model that does not fit together is refused, with the name of what is wrong', () => {
  const pk = { attribute: 'pk', type: 'S' };
  const base = { name: 'M', table: { name: 't' }, keys: { partition: pk }, attributes: [pk] };
  const refused: [RegExp, object | undefined][] = [
    [/has no name/, { ...base, name: '' }],
    [/has no name/, undefined],
    [/table.name is empty/, { ...base, table: { name: undefined } }],
    [/keys.partition is missing/, { ...base, keys: {} }],
    [/the key id is not among the attributes/, { ...base, keys: { partition: { attribute: 'id', type: 'S' } } }],
    [/the key pk is N, and its attribute is S/, { ...base, keys: { partition: { attribute: 'pk', type: 'N' } } }],
    [
      /keys are S, N or B/,
      {
        ...base,
        keys: { partition: { attribute: 'b', type: 'BOOL' } },
        attributes: [{ attribute: 'b', type: 'BOOL' }],
      },
    ],
    [/pk is both of its keys/, { ...base, keys: { partition: pk, sort: pk } }],
    [/pk is declared twice/, { ...base, attributes: [pk, pk] }],
    [/has no name in its member/, { ...base, attributes: [pk, { type: 'S' }] }],
    [/has the type X/, { ...base, attributes: [pk, { attribute: 'a', type: 'X' }] }],
    [
      /both required and optional/,
      { ...base, attributes: [pk, { attribute: 'a', type: 'S', required: true, optional: true }] },
    ],
    [/has as: float/, { ...base, attributes: [pk, { attribute: 'a', type: 'N', as: 'float' }] }],
    [/for the types N and NS/, { ...base, attributes: [pk, { attribute: 'a', type: 'S', as: 'bigint' }] }],
    [/has the role owner/, { ...base, attributes: [pk, { attribute: 'a', type: 'S', roles: ['owner'] }] }],
    [/for the type N/, { ...base, attributes: [pk, { attribute: 'a', type: 'S', roles: ['ttl'] }] }],
    [
      /a has the role pk, which is that of pk/,
      { ...base, attributes: [pk, { attribute: 'a', type: 'S', roles: ['pk'] }] },
    ],
    [
      /a has the role sk, which is that of no attribute/,
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
