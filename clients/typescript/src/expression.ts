/** Builds expressions: allocates placeholders, and joins our conditions with the caller's. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { InvalidQueryError } from './errors.js';
import type { Model } from './model.js';

/** A raw condition expression with its placeholders. Values are attribute values: `{ S: … }`. */
export interface RawCondition {
  conditionExpression?: string | undefined;
  expressionAttributeNames?: Readonly<Record<string, string>> | undefined;
  expressionAttributeValues?: Readonly<Record<string, AttributeValue>> | undefined;
}

/** The placeholders of one request, as the SDK takes them; absent if empty. */
export interface Placeholders {
  ExpressionAttributeNames?: Record<string, string>;
  ExpressionAttributeValues?: Record<string, AttributeValue>;
}

/** Collects the placeholders of one request. The prefixes `#_` and `:_` are reserved for this package. */
export class Expressions {
  readonly #names = new Map<string, string>();
  readonly #values = new Map<string, AttributeValue>();
  readonly #placeholders = new Map<string, string>();

  /** Returns the placeholder of an attribute name. */
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

  /** Returns a new placeholder for a value. */
  value(value: AttributeValue): string {
    const placeholder = `:_${this.#values.size}`;
    this.#values.set(placeholder, value);
    return placeholder;
  }

  /** Adds the placeholders of a caller's expression. */
  merge(raw: RawCondition): void {
    mergePlaceholders(this.#names, raw.expressionAttributeNames);
    mergePlaceholders(this.#values, raw.expressionAttributeValues);
  }

  placeholders(): Placeholders {
    return {
      ...(this.#names.size === 0 ? {} : { ExpressionAttributeNames: Object.fromEntries(this.#names) }),
      ...(this.#values.size === 0 ? {} : { ExpressionAttributeValues: Object.fromEntries(this.#values) }),
    };
  }
}

function mergePlaceholders<T>(into: Map<string, T>, given: Readonly<Record<string, T>> | undefined): void {
  for (const [placeholder, meaning] of Object.entries(given ?? {})) {
    if (/^[#:]_/.test(placeholder)) {
      throw new InvalidQueryError(
        `the placeholder ${placeholder} is reserved: placeholders must not start with ${placeholder.slice(0, 2)}`,
      );
    }
    into.set(placeholder, meaning);
  }
}

/** `attribute_exists(path)`, all that a condition can ask of an encrypted attribute. */
const existence = /\battribute_(not_)?exists\s*\(\s*[#\w]+\s*\)/g;
/** A name, a placeholder of one, or a function with its parenthesis. Steps of a path and values are not. */
const mention = /(?<![\w#:]|\.\s*)([#A-Za-z_]\w*)(?!\w|\s*\()/g;

/**
 * Checks that a raw expression does not compare, compute or set an encrypted attribute.
 *
 * @throws InvalidQueryError
 */
export function checkRaw(
  model: Model,
  what: string,
  expression: string,
  names: Readonly<Record<string, string>> = {},
): void {
  if (model.encrypted.length === 0) {
    return;
  }
  for (const [, word = ''] of expression.replace(existence, ' ').matchAll(mention)) {
    const declared = model.attributes.get(word.startsWith('#') ? (names[word] ?? '') : word);
    if (declared?.encrypted) {
      throw new InvalidQueryError(
        `${what}: the expression names ${declared.attribute}, which is encrypted; conditions can only check whether it exists, and updates need item and fields, or changes`,
      );
    }
  }
}

/** Joins conditions with AND; undefined if there are none. */
export function allOf(...conditions: readonly (string | undefined)[]): string | undefined {
  const given = conditions.filter((condition) => condition !== undefined);
  if (given.length <= 1) {
    return given[0];
  }
  return given.map((condition) => (hasTopLevelOr(condition) ? `(${condition})` : condition)).join(' AND ');
}

/**
 * Reports whether a condition has an OR outside all parentheses, so that joining it with
 * AND needs parentheses. They are not added otherwise: DynamoDB rejects redundant
 * parentheses.
 */
function hasTopLevelOr(condition: string): boolean {
  let outside = condition;
  for (let before = ''; before !== outside; ) {
    before = outside;
    outside = outside.replace(/\([^()]*\)/g, ' ');
  }
  return /\bOR\b/i.test(outside);
}
