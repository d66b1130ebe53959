/** The terms of a query, and the request built from them. */

import type { AttributeValue, QueryCommandInput } from '@aws-sdk/client-dynamodb';

import type { CursorScope } from './cursor.js';
import { InvalidQueryError } from './errors.js';
import { Expressions } from './expression.js';
import type { Item } from './item.js';
import { attributeOf } from './marshal.js';
import type { AttributeDefinition, IndexDefinition, Model } from './model.js';
import { encode, type ValueType } from './value.js';

/** Operators on the sort key. */
export type SortOperator = '=' | '<' | '<=' | '>' | '>=' | 'between' | 'begins_with';

/** Operators on other attributes. */
export type FilterOperator = SortOperator | '<>' | 'in' | 'contains' | 'exists' | 'not_exists';

/** An operator with its operands. */
export interface Comparison<O> {
  operator: O;
  values: readonly unknown[];
}

/** The terms of a query, as the builder collected them. */
export interface Terms {
  partition?: unknown;
  sort?: Comparison<SortOperator>;
  filters: readonly (Comparison<FilterOperator> & { attribute: string })[];
  index?: string;
  limit?: number;
  descending: boolean;
  consistent?: boolean;
  cursor?: string;
  signal?: AbortSignal;
}

/** The table or index, and the partition that a query reads. */
export interface QueryScope extends CursorScope {
  definition: IndexDefinition | undefined;
  sort: AttributeDefinition | undefined;
}

/** Resolves the scope of a query. */
export function scopeOf(model: Model, terms: Terms): QueryScope {
  const definition = indexOf(model, terms.index);
  const keys = definition ?? model.definition.keys;
  const partition = attributeOf(model, keys.partition.attribute);
  const sort = keys.sort && attributeOf(model, keys.sort.attribute);
  if (terms.partition === undefined) {
    throw new InvalidQueryError(`query ${model.name}: partitionKey is missing; a query reads one partition`);
  }
  const value = encode(partition, terms.partition, `${model.name}.${partition.attribute}`);
  const fields = [...(sort === undefined ? [] : [sort]), ...(definition === undefined ? [] : model.keys)];
  return {
    table: model.tableName,
    index: definition?.name,
    definition,
    descending: terms.descending,
    partition: { [partition.attribute]: value },
    sort,
    fields: [...new Set(fields)].filter((field) => field !== partition),
  };
}

function indexOf(model: Model, name: string | undefined): IndexDefinition | undefined {
  if (name === undefined) {
    return undefined;
  }
  const found = model.definition.indexes?.find((index) => index.name === name);
  if (found === undefined) {
    throw new InvalidQueryError(`query ${model.name}: the model has no index ${name}; declare it in indexes`);
  }
  return found;
}

/** Builds the request for the page after `start`, or for the first page. */
export function requestOf(model: Model, terms: Terms, scope: QueryScope, start: Item | undefined): QueryCommandInput {
  const expressions = new Expressions();
  const keys = Object.entries(scope.partition).map(
    ([name, key]) => `${expressions.name(name)} = ${expressions.value(key)}`,
  );
  if (terms.sort !== undefined) {
    keys.push(sortCondition(model, expressions, scope.sort, terms.sort));
  }
  const filters = terms.filters.map((filter) => filterCondition(model, expressions, filter));
  return {
    TableName: scope.table,
    IndexName: scope.index,
    KeyConditionExpression: keys.join(' AND '),
    FilterExpression: filters.length === 0 ? undefined : filters.join(' AND '),
    ...expressions.placeholders(),
    ConsistentRead: isConsistent(model, terms, scope),
    ScanIndexForward: !scope.descending,
    Limit: terms.limit,
    ExclusiveStartKey: start,
  };
}

function isConsistent(model: Model, terms: Terms, scope: QueryScope): boolean {
  const isGlobal = scope.definition?.type === 'GSI';
  if (isGlobal && terms.consistent) {
    throw new InvalidQueryError(
      `query ${model.name}: the global index ${scope.index} does not support consistent reads; leave consistentRead out`,
    );
  }
  return terms.consistent ?? !isGlobal;
}

function sortCondition(
  model: Model,
  expressions: Expressions,
  sort: AttributeDefinition | undefined,
  { operator, values }: Comparison<SortOperator>,
): string {
  if (sort === undefined) {
    throw new InvalidQueryError(`query ${model.name}: sortKey: the table or index has no sort key`);
  }
  return comparison(model, expressions, sort, operator, values, sort);
}

function filterCondition(model: Model, expressions: Expressions, filter: Terms['filters'][number]): string {
  const declared = attributeOf(model, filter.attribute);
  return comparison(
    model,
    expressions,
    declared,
    filter.operator,
    filter.values,
    comparedType(declared, filter.operator),
  );
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

function comparison(
  model: Model,
  expressions: Expressions,
  declared: AttributeDefinition,
  operator: FilterOperator,
  values: readonly unknown[],
  type: ValueType | undefined,
): string {
  const path = `${model.name}.${declared.attribute}`;
  checkCount(path, operator, values.length);
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
