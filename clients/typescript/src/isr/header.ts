import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import type { HeaderFields, HeaderValue } from './entry.js';
import type { Kind } from './row.js';

/** The map `headers` of a row: lower-case names with lists of strings, or binary for values that are not UTF-8. */
export const headersKind: Kind<HeaderFields> = {
  expected: 'a map of lists of strings',
  none: Object.freeze({}),
  read(av) {
    if (av.NULL !== undefined) return {};
    if (av.M === undefined) return undefined;
    const fields = new Map<string, HeaderValue[]>();
    for (const [name, stored] of Object.entries(av.M)) {
      const values = valuesOf(stored);
      if (values === undefined) return undefined;
      fields.set(name.toLowerCase(), values);
    }
    return Object.fromEntries(fields);
  },
};

/** A list of strings, such as the tags; it may be missing. */
export const textsKind: Kind<readonly string[]> = {
  expected: 'a list of strings',
  none: Object.freeze([]) as readonly string[],
  read(av) {
    if (av.NULL !== undefined) return [];
    return valuesOf(av)?.map((v) => (typeof v === 'string' ? v : Buffer.from(v).toString('utf8')));
  },
};

function valuesOf(av: AttributeValue): HeaderValue[] | undefined {
  const values = av.L?.map((member) => member.S ?? member.B);
  return values?.every((v) => v !== undefined) ? values : undefined;
}

/**
 * Converts headers to an attribute, undefined if there are none. Names that differ only in
 * case are one field, with the values joined in the order of the names.
 */
export function storedHeaders(headers: HeaderFields): AttributeValue | undefined {
  const fields = new Map<string, AttributeValue[]>();
  for (const name of Object.keys(headers).sort()) {
    const list = fields.get(name.toLowerCase()) ?? [];
    list.push(...(headers[name] ?? []).map(storedValue));
    fields.set(name.toLowerCase(), list);
  }
  if (fields.size === 0) return undefined;
  return { M: Object.fromEntries(Array.from(fields, ([name, L]) => [name, { L }])) };
}

function storedValue(value: HeaderValue): AttributeValue {
  return typeof value === 'string' ? { S: value } : { B: value };
}
