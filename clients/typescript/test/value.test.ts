import assert from 'node:assert/strict';
import { test } from 'node:test';

import { canonicalDecimal, exactInteger, exactNumber } from '../src/decimal.js';
import { InvalidInputError } from '../src/errors.js';
import { decode, encode, Mismatch, type ValueType } from '../src/value.js';

test('decimals are normalized', () => {
  const cases: [string, string | undefined][] = [
    ['0', '0'],
    ['-0', '0'],
    ['0.000', '0'],
    ['1.50', '1.5'],
    ['007', '7'],
    ['1e2', '100'],
    ['-1.5E-3', '-0.0015'],
    ['.5', '0.5'],
    ['5.', '5'],
    ['+1', '1'],
    ['123456.789', '123456.789'],
    ['1e125', `1${'0'.repeat(125)}`],
    ['1e-130', `0.${'0'.repeat(129)}1`],
    ['12345678901234567890123456789012345678', '12345678901234567890123456789012345678'],
    ['123456789012345678901234567890123456780', '123456789012345678901234567890123456780'],
    ['123456789012345678901234567890123456789', undefined],
    ['1e126', undefined],
    ['1e-131', undefined],
    ['', undefined],
    ['.', undefined],
    ['NaN', undefined],
    ['Infinity', undefined],
    ['0x10', undefined],
    ['1_000', undefined],
    [' 1', undefined],
    ['9'.repeat(1000), undefined],
  ];
  for (const [text, expected] of cases) {
    assert.equal(canonicalDecimal(text), expected, text);
  }
});

test('a stored number becomes a JavaScript number only if the value is exact', () => {
  assert.equal(exactNumber('0.1'), 0.1);
  assert.equal(exactNumber('100'), 100);
  assert.equal(exactNumber('9007199254740991'), Number.MAX_SAFE_INTEGER);
  assert.equal(exactNumber('9007199254740992'), undefined);
  assert.equal(exactNumber('9007199254740993'), undefined);
  assert.equal(exactNumber('0.1234567890123456789'), undefined);
  assert.equal(exactInteger('123456789012345678901234567890'), 123456789012345678901234567890n);
  assert.equal(exactInteger('1.5'), undefined);
});

test('numbers round-trip in each form', () => {
  for (const value of [0, 1, -1, 0.1, 1e-7, 5e-100, 123456.789, Number.MAX_SAFE_INTEGER, Math.PI, 2 ** -60]) {
    assert.equal(decode({ type: 'N' }, encode({ type: 'N' }, value, 'n')), value);
  }
  for (const value of [0n, -(2n ** 90n), 10n ** 125n]) {
    assert.equal(decode({ type: 'N', as: 'bigint' }, encode({ type: 'N', as: 'bigint' }, value, 'n')), value);
  }
  const exact = '0.12345678901234567890123456789012345678';
  assert.equal(decode({ type: 'N', as: 'string' }, encode({ type: 'N', as: 'string' }, exact, 'n')), exact);
});

test('every JavaScript number that DynamoDB can store round-trips', () => {
  for (let seed = 1, i = 0; i < 20_000; i++) {
    seed = (seed * 48_271) % 2_147_483_647; // Park-Miller generator: the same numbers in every run
    const value = (seed / 2_147_483_647 - 0.5) * 10 ** ((seed % 240) - 120);
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      continue;
    }
    assert.equal(decode({ type: 'N' }, encode({ type: 'N' }, value, 'n')), value);
  }
});

test('values that cannot be stored exactly are rejected with their path', () => {
  const deep = (levels: number): unknown => (levels === 0 ? [] : [deep(levels - 1)]);
  const cyclic: unknown[] = [];
  cyclic.push(cyclic);
  const refused: [ValueType, unknown][] = [
    [{ type: 'N' }, 2 ** 53],
    [{ type: 'N' }, Number.NaN],
    [{ type: 'N' }, Number.POSITIVE_INFINITY],
    [{ type: 'N' }, 5e-324],
    [{ type: 'N' }, 1n],
    [{ type: 'N', as: 'bigint' }, 1],
    [{ type: 'N', as: 'bigint' }, 10n ** 126n],
    [{ type: 'N', as: 'bigint' }, 10n ** 38n + 1n],
    [{ type: 'N', as: 'string' }, 'one'],
    [{ type: 'S' }, 1],
    [{ type: 'S' }, 'half \ud83d'],
    [{ type: 'B' }, [1, 2]],
    [{ type: 'BOOL' }, 1],
    [{ type: 'NULL' }, undefined],
    [{ type: 'SS' }, ['a']],
    [{ type: 'SS' }, new Set()],
    [{ type: 'SS' }, new Set([1])],
    [{ type: 'NS', as: 'string' }, new Set(['1', '1.0'])],
    [{ type: 'BS' }, new Set([Uint8Array.of(1), Uint8Array.of(1)])],
    [{ type: 'L' }, {}],
    [{ type: 'L' }, [undefined]],
    [{ type: 'L' }, [2 ** 53]],
    [{ type: 'L' }, [() => 1]],
    [{ type: 'L' }, deep(32)],
    [{ type: 'L' }, cyclic],
    [{ type: 'M' }, []],
    [{ type: 'M' }, new Map()],
    [{ type: 'M' }, { at: new Date(0) }],
    [{ type: 'M' }, { mixed: new Set(['a', 1]) }],
    [{ type: 'M' }, JSON.parse('{"__proto__": 1}')],
    [{ type: 'M' }, { 'half \ud83d': 1 }],
  ];
  for (const [declared, value] of refused) {
    assert.throws(
      () => encode(declared, value, 'Song.x'),
      (error: Error) => error instanceof InvalidInputError && error.message.includes('Song.x'),
      `${declared.type} ${String(value)}`,
    );
  }
});

test('documents round-trip', () => {
  const document = {
    text: 'é',
    n: 1.5,
    large: 2n ** 60n,
    yes: true,
    none: null,
    bytes: Uint8Array.of(1, 2),
    list: [1, 'a', [], {}],
    texts: new Set(['a', 'b']),
    numbers: new Set([1, 2n ** 60n]),
    binaries: new Set([Uint8Array.of(3)]),
  };
  const stored = encode({ type: 'M' }, { ...document, absent: undefined }, 'm');
  assert.deepEqual(decode({ type: 'M' }, stored), document);
  assert.equal('absent' in (stored.M ?? {}), false);
});

test('a stored value of the wrong type is rejected', () => {
  const unfit: [ValueType, Parameters<typeof decode>[1], string][] = [
    [{ type: 'N' }, { S: '1' }, ''],
    [{ type: 'S' }, { NULL: true }, ''],
    [{ type: 'N' }, { N: '9007199254740993' }, ''],
    [{ type: 'N', as: 'bigint' }, { N: '1.5' }, ''],
    [{ type: 'NS' }, { NS: ['1', '9007199254740993'] }, ''],
    [{ type: 'M' }, { M: { a: { L: [{ N: '1' }, { N: '0.1234567890123456789' }] } } }, '.a[1]'],
  ];
  for (const [declared, stored, path] of unfit) {
    assert.throws(
      () => decode(declared, stored),
      (error: Error) => error instanceof Mismatch && error.path === path,
    );
  }
});

test('map members named like inherited properties are ordinary members', () => {
  const stored = { M: { constructor: { N: '1' }, ['__proto__']: { N: '2' } } };
  const read = decode({ type: 'M' }, stored) as Record<string, unknown>;
  assert.deepEqual(Object.entries(read), [
    ['constructor', 1],
    ['__proto__', 2],
  ]);
  assert.equal(Object.getPrototypeOf(read), Object.prototype);
});
