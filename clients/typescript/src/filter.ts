/** Filters: comparisons of attributes, joined with and, or and not, and typed by the model. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { InvalidQueryError } from './errors.js';
import type { Expressions } from './expression.js';
import type { FieldOf, PlainFieldOf, ValueAt } from './infer.js';
import { attributeOf } from './marshal.js';
import type { AttributeDefinition, Model } from './model.js';
import { type DocumentValue, encode, type ValueType } from './value.js';

/** Operators on the sort key. */
export type SortOperator = '=' | '<' | '<=' | '>' | '>=' | 'between' | 'begins_with';

/** Operators on other attributes. */
export type FilterOperator = SortOperator | '<>' | 'in' | 'contains' | 'exists' | 'not_exists';

/** The operators on an attribute of a model. Of an encrypted one DynamoDB only knows whether it exists. */
export type FilterOperatorOf<M extends Model, A> = A extends PlainFieldOf<M> ? FilterOperator : 'exists' | 'not_exists';

/** The operands that an operator takes on an attribute with values of type `V`. */
export type Operands<O extends FilterOperator, V> = O extends 'exists' | 'not_exists'
  ? []
  : O extends 'between'
    ? [low: V, high: V]
    : O extends 'in'
      ? [first: V, ...others: V[]]
      : O extends 'contains'
        ? [member: ContainedIn<V>]
        : O extends 'begins_with'
          ? [prefix: V extends string | Uint8Array ? V : unknown extends V ? V : never]
          : [value: V];

/** What `contains` looks for in values of type `V`: a part of a text, a member of a set or a list. */
export type ContainedIn<V> = unknown extends V
  ? V
  : V extends ReadonlySet<infer Member>
    ? Member
    : V extends string | Uint8Array
      ? V
      : V extends readonly unknown[]
        ? DocumentValue
        : never;

/** A comparison with its operands. */
export interface Comparison<O> {
  operator: O;
  values: readonly unknown[];
}

declare const filtered: unique symbol;

/** A filter of items of the model. Only a {@link FilterBuilder} makes filters. */
export interface Filter<M extends Model = Model> {
  readonly [filtered]: M;
}

/** The content of a filter. */
type Rule =
  | ({ kind: 'compare'; attribute: string } & Comparison<FilterOperator>)
  | { kind: 'and' | 'or'; rules: readonly Rule[] }
  | { kind: 'not'; rule: Rule };

const seal = (rule: Rule) => rule as unknown as Filter<never>;
const open = (filter: Filter<never>) => filter as unknown as Rule;

/** Makes filters: `(f) => f.or(f.where('year', '<', 1960), f.not(f.where('genre', 'exists')))`. It holds no state. */
export class FilterBuilder<M extends Model> {
  /**
   * Compares an attribute. `between` takes two values, `in` 1 to 100, `exists` and
   * `not_exists` none, the other operators one.
   */
  where<A extends FieldOf<M>, O extends FilterOperatorOf<M, A>>(
    attribute: A,
    operator: O,
    ...values: Operands<O, ValueAt<M, A>>
  ): Filter<M> {
    return seal({ kind: 'compare', attribute, operator, values });
  }

  /** All filters hold. It takes at least one. */
  and(...filters: readonly Filter<M>[]): Filter<M> {
    return this.#group('and', filters);
  }

  /** One of the filters holds. It takes at least one. */
  or(...filters: readonly Filter<M>[]): Filter<M> {
    return this.#group('or', filters);
  }

  /** The filter does not hold. */
  not(filter: Filter<M>): Filter<M> {
    return seal({ kind: 'not', rule: open(filter as Filter<never>) });
  }

  #group(kind: 'and' | 'or', filters: readonly Filter<M>[]): Filter<M> {
    if (filters.length === 0) {
      throw new InvalidQueryError(`${kind} takes at least one filter`);
    }
    return seal({ kind, rules: filters.map((filter) => open(filter as Filter<never>)) });
  }
}

/** Joins filters that must all hold: one at least. */
export function allOfFilters(filters: readonly Filter<never>[]): Filter<never> {
  return seal({ kind: 'and', rules: filters.map(open) });
}

/** Returns the filters with an alternative to all of them together; the alternative if there are none. */
export function anyOfFilters(filters: readonly Filter<never>[], alternative: Filter<never>): readonly Filter<never>[] {
  if (filters.length === 0) return [alternative];
  return [seal({ kind: 'or', rules: [open(allOfFilters(filters)), open(alternative)] })];
}

/** Builds the expression of filters that must all hold; undefined if there are none. */
export function filterExpression(
  model: Model,
  expressions: Expressions,
  filters: readonly Filter<never>[],
): string | undefined {
  if (filters.length === 0) {
    return undefined;
  }
  return expressionOf(model, expressions, { kind: 'and', rules: filters.map(open) }, 'and');
}

/** Builds an expression, in parentheses only where they change its meaning: DynamoDB rejects redundant ones. */
function expressionOf(model: Model, expressions: Expressions, rule: Rule, around: 'and' | 'or' | 'not'): string {
  switch (rule?.kind) {
    case 'compare': {
      const declared = attributeOf(model, rule.attribute);
      return comparison(model, expressions, declared, rule, comparedType(declared, rule.operator));
    }
    case 'not':
      return `NOT ${expressionOf(model, expressions, rule.rule, 'not')}`;
    case 'and':
    case 'or': {
      const [only, ...others] = rule.rules;
      if (only !== undefined && others.length === 0) {
        return expressionOf(model, expressions, only, around);
      }
      const parts = rule.rules.map((part) => expressionOf(model, expressions, part, rule.kind));
      const joined = parts.join(rule.kind === 'and' ? ' AND ' : ' OR ');
      return around === rule.kind || (around === 'or' && rule.kind === 'and') ? joined : `(${joined})`;
    }
    default:
      throw new InvalidQueryError(`filter ${model.name}: a filter must be made by the builder that filter passes`);
  }
}

/** Returns the type of an operator's operand: `contains` takes a member of a set, and any value for a list. */
function comparedType(declared: AttributeDefinition, operator: FilterOperator): ValueType | undefined {
  if (operator !== 'contains') {
    return declared;
  }
  const member = { SS: 'S', NS: 'N', BS: 'B', S: 'S', B: 'B' } as const;
  const type = member[declared.type as keyof typeof member];
  return type === undefined ? undefined : { type, as: declared.as };
}

/** Builds the expression of one comparison. An undefined type accepts any member of a list. */
export function comparison(
  model: Model,
  expressions: Expressions,
  declared: AttributeDefinition,
  { operator, values }: Comparison<FilterOperator>,
  type: ValueType | undefined,
): string {
  const path = `${model.name}.${declared.attribute}`;
  checkCount(path, operator, values.length);
  if (declared.encrypted && operator !== 'exists' && operator !== 'not_exists') {
    throw new InvalidQueryError(
      `${path} is encrypted, and DynamoDB cannot compare it: only exists and not_exists work`,
    );
  }
  const name = expressions.name(declared.attribute);
  const compared = values.map((value) => expressions.value(comparedValue(type, value, path)));
  switch (operator) {
    case 'between':
      return `${name} BETWEEN ${compared.join(' AND ')}`;
    case 'in':
      return `${name} IN (${compared.join(', ')})`;
    case 'begins_with':
    case 'contains':
      return `${operator}(${name}, ${compared[0]})`;
    case 'exists':
    case 'not_exists':
      return `attribute_${operator}(${name})`;
    default:
      return `${name} ${operator} ${compared[0]}`;
  }
}

/** Encodes an operand. An undefined type accepts any member of a list. */
function comparedValue(type: ValueType | undefined, value: unknown, path: string): AttributeValue {
  if (type !== undefined) {
    return encode(type, value, path);
  }
  const [member] = encode({ type: 'L' }, [value], path).L ?? [];
  return member as AttributeValue;
}

/** The number of values per operator. */
const counts: Readonly<Record<FilterOperator, readonly [least: number, most: number]>> = {
  '=': [1, 1],
  '<>': [1, 1],
  '<': [1, 1],
  '<=': [1, 1],
  '>': [1, 1],
  '>=': [1, 1],
  begins_with: [1, 1],
  contains: [1, 1],
  between: [2, 2],
  in: [1, 100],
  exists: [0, 0],
  not_exists: [0, 0],
};

function checkCount(path: string, operator: FilterOperator, given: number): void {
  if (!Object.hasOwn(counts, operator)) {
    throw new InvalidQueryError(
      `${path}: unknown operator ${operator}; expected one of ${Object.keys(counts).join(', ')}`,
    );
  }
  const [least, most] = counts[operator];
  if (given < least || given > most) {
    throw new InvalidQueryError(
      `${path}: ${operator} takes ${least === most ? least : `${least} to ${most}`} values (got ${given})`,
    );
  }
}
