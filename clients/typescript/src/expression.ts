/** Expressions of requests: placeholders, and conditions joined with those that callers write. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { InvalidQueryError } from './errors.js';

/** A condition in DynamoDB's own words, with its placeholders. Values are as they are stored: `{ S: … }`. */
export interface RawCondition {
  conditionExpression?: string | undefined;
  expressionAttributeNames?: Readonly<Record<string, string>> | undefined;
  expressionAttributeValues?: Readonly<Record<string, AttributeValue>> | undefined;
}

/** The placeholders of one request, as the SDK takes them: absent if there are none. */
export interface Placeholders {
  ExpressionAttributeNames?: Record<string, string>;
  ExpressionAttributeValues?: Record<string, AttributeValue>;
}

/** Collects the placeholders of one request. Ours begin with `#_` and `:_`, which callers leave alone. */
export class Expressions {
  readonly #names = new Map<string, string>();
  readonly #values = new Map<string, AttributeValue>();
  readonly #placeholders = new Map<string, string>();

  /** The placeholder of an attribute. */
  name(attribute: string): string {
    const known = this.#placeholders.get(attribute);
    if (known !== undefined) {
      return known;
    }
    const placeholder = `#_${this.#placeholders.size}`;
    this.#placeholders.set(attribute, placeholder);
    this.#names.set(placeholder, attribute);
    return placeholder;
  }

  /** The placeholder of a value. */
  value(value: AttributeValue): string {
    const placeholder = `:_${this.#values.size}`;
    this.#values.set(placeholder, value);
    return placeholder;
  }

  /** Takes over the placeholders of an expression that a caller wrote. */
  take(raw: RawCondition): void {
    adopt(this.#names, raw.expressionAttributeNames);
    adopt(this.#values, raw.expressionAttributeValues);
  }

  placeholders(): Placeholders {
    return {
      ...(this.#names.size === 0 ? {} : { ExpressionAttributeNames: Object.fromEntries(this.#names) }),
      ...(this.#values.size === 0 ? {} : { ExpressionAttributeValues: Object.fromEntries(this.#values) }),
    };
  }
}

function adopt<T>(into: Map<string, T>, given: Readonly<Record<string, T>> | undefined): void {
  for (const [placeholder, meaning] of Object.entries(given ?? {})) {
    if (/^[#:]_/.test(placeholder)) {
      throw new InvalidQueryError(
        `the placeholder ${placeholder} is taken: those that begin with ${placeholder.slice(0, 2)} are this package's`,
      );
    }
    into.set(placeholder, meaning);
  }
}

/** Joins conditions, all of which must hold; undefined if there are none. */
export function allOf(...conditions: readonly (string | undefined)[]): string | undefined {
  const given = conditions.filter((condition) => condition !== undefined);
  if (given.length <= 1) {
    return given[0];
  }
  return given.map((condition) => (hasOr(condition) ? `(${condition})` : condition)).join(' AND ');
}

/**
 * Says that an OR stands outside of all parentheses, where an AND beside it would
 * take a part of the condition away. Parentheses around everything are left alone:
 * DynamoDB refuses redundant ones.
 */
function hasOr(condition: string): boolean {
  let outside = condition;
  for (let before = ''; before !== outside; ) {
    before = outside;
    outside = outside.replace(/\([^()]*\)/g, ' ');
  }
  return /\bOR\b/i.test(outside);
}
