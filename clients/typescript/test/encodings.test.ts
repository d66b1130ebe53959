/** The test vectors shared by the mappers of all languages: spec/vectors/encodings.json. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { floorSeconds } from '../src/clock.js';
import { canonicalDecimal, exactInteger, exactNumber } from '../src/decimal.js';
import { type AttributeType, defineModel, TheorydbError } from '../src/index.js';
import { decodeItem, encodeItem } from '../src/marshal.js';
import type { NumberForm } from '../src/value.js';
import { specFile } from './spec.js';

interface Vector {
  name: string;
  type: AttributeType;
  value: Json;
  omitempty?: boolean;
  attribute?: Json;
  error?: string;
}

/** An attribute in DynamoDB JSON: the SDK's form, with bytes in base64. */
type Json = Record<string, unknown>;

interface Vectors {
  values: Vector[];
  ttls: { name: string; now_ms: number; attribute: Json }[];
  refused: Vector[];
}

const vectors: Vectors = JSON.parse(readFileSync(specFile('vectors/encodings.json'), 'utf8'));

const key = { pk: 'p', sk: 's' };

function modelOf(type: AttributeType, as: NumberForm | undefined, omitEmpty = false) {
  const keys = { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } } as const;
  return defineModel({
    name: 'Vector',
    table: { name: 't' },
    keys,
    attributes: [
      keys.partition,
      keys.sort,
      { attribute: 'value', type, ...(as === undefined ? {} : { as }), ...(omitEmpty ? { omit_empty: true } : {}) },
    ],
  });
}

/** Converts a vector's attribute to a JavaScript value, with numbers in the given form. */
function valueIn(json: Json, as: NumberForm | undefined): unknown {
  const [[type, value]] = Object.entries(json) as [[AttributeType, unknown]];
  switch (type) {
    case 'N':
      return numberOf(value as string, as);
    case 'B':
      return new Uint8Array(Buffer.from(value as string, 'base64'));
    case 'NULL':
      return null;
    case 'SS':
    case 'NS':
    case 'BS':
      return new Set((value as string[]).map((member) => valueIn({ [type[0] as string]: member }, as)));
    case 'L':
      return (value as Json[]).map((member) => valueIn(member, undefined));
    case 'M':
      return Object.fromEntries(
        Object.entries(value as Record<string, Json>).map(([k, v]) => [k, valueIn(v, undefined)]),
      );
    default:
      return value;
  }
}

function numberOf(text: string, as: NumberForm | undefined): unknown {
  return as === 'string' ? text : as === 'bigint' ? BigInt(text) : Number(text);
}

/** Returns the forms that can represent a vector's numbers exactly. */
function formsOf(vector: Vector): (NumberForm | undefined)[] {
  const numbers = [vector.value['N'] ?? vector.value['NS'] ?? []].flat() as string[];
  if (numbers.length === 0) {
    return [undefined];
  }
  return [
    ...(numbers.every((n) => exactNumber(n) !== undefined) ? [undefined] : []),
    ...(numbers.every((n) => exactInteger(n) !== undefined && /^-?\d+$/.test(n)) ? (['bigint'] as const) : []),
    'string',
  ];
}

/** Normalizes an attribute so that equal attributes are deeply equal. */
function comparable(attribute: Json | AttributeValue | undefined): unknown {
  const [entry] = Object.entries(attribute ?? {});
  if (entry === undefined) {
    return undefined;
  }
  const [type, value] = entry as [string, never];
  switch (type) {
    case 'N':
      return ['N', canonicalDecimal(value)];
    case 'B':
      return ['B', bytesOf(value)];
    case 'SS':
    case 'NS':
    case 'BS':
      return [type, (value as never[]).map((member) => comparable({ [type[0] as string]: member })).sort()];
    case 'L':
      return ['L', (value as Json[]).map(comparable)];
    case 'M':
      return [
        'M',
        Object.fromEntries(Object.entries(value as Record<string, Json>).map(([k, v]) => [k, comparable(v)])),
      ];
    default:
      return [type, value];
  }
}

function bytesOf(value: string | Uint8Array): string {
  return typeof value === 'string' ? value : Buffer.from(value).toString('base64');
}

for (const vector of vectors.values) {
  for (const as of formsOf(vector)) {
    test(`${vector.type}: ${vector.name}${as === undefined ? '' : `, as ${as}`}`, () => {
      // Sets may be empty only with omit_empty.
      const model = modelOf(vector.type, as, vector.omitempty);
      const value = valueIn(vector.value, as);
      const stored = encodeItem(model, { ...key, value });
      assert.deepEqual(comparable(stored['value']), comparable(vector.attribute));
      if (vector.attribute !== undefined) {
        const read = decodeItem(model, stored)['value'];
        const again = as === 'string' ? encodeItem(model, { ...key, value: read })['value'] : read;
        assert.deepEqual(again, as === 'string' ? stored['value'] : value);
      }
    });
  }
}

for (const vector of vectors.refused) {
  test(`refused, ${vector.type}: ${vector.name}`, () => {
    const forms: (NumberForm | undefined)[] = ['N', 'NS'].includes(vector.type) ? [undefined, 'string'] : [undefined];
    for (const as of forms) {
      const item = { ...key, value: valueIn(vector.value, as) };
      assert.throws(
        () => encodeItem(modelOf(vector.type, as), item),
        (error: Error) => error instanceof TheorydbError && error.code === vector.error,
      );
    }
  });
}

for (const vector of vectors.ttls) {
  test(`ttl: ${vector.name}`, () => {
    const keys = { partition: { attribute: 'pk', type: 'S' } } as const;
    const model = defineModel({
      name: 'Vector',
      table: { name: 't' },
      keys,
      attributes: [keys.partition, { attribute: 'ttl', type: 'N', roles: ['ttl'] }],
    });
    assert.deepEqual(encodeItem(model, { pk: 'p', ttl: floorSeconds(vector.now_ms) })['ttl'], vector.attribute);
  });
}
