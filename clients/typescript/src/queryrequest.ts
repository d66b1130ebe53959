/** The terms of a query, and the request built from them. */

import type { QueryCommandInput, ScanCommandInput } from '@aws-sdk/client-dynamodb';

import type { CursorScope } from './cursor.js';
import { InvalidInputError, InvalidQueryError } from './errors.js';
import { Expressions } from './expression.js';
import { type Comparison, comparison, type Filter, filterExpression, type SortOperator } from './filter.js';
import type { Item } from './item.js';
import { attributeOf } from './marshal.js';
import type { AttributeDefinition, IndexDefinition, Model } from './model.js';
import { encode } from './value.js';

/** The terms that queries and scans share, as the builder collected them. */
export interface ReadTerms {
  filters: readonly Filter<never>[];
  /** The attributes to read; undefined for all. */
  select?: readonly string[];
  index?: string;
  limit?: number;
  consistent?: boolean;
  cursor?: string;
  signal?: AbortSignal;
}

/** The terms of a query, as the builder collected them. */
export interface Terms extends ReadTerms {
  partition?: unknown;
  sort?: Comparison<SortOperator>;
  descending: boolean;
}

/** One of the parallel segments of a scan, from 0. */
interface Segment {
  index: number;
  total: number;
}

/** The terms of a scan, as the builder collected them. */
export interface ScanTerms extends ReadTerms {
  segments?: number;
  /** The one segment that this scan reads. */
  segment?: Segment;
}

/** The table or index that is read. */
export interface ReadScope extends CursorScope {
  definition: IndexDefinition | undefined;
}

/** The table or index, and the partition that a query reads. */
export interface QueryScope extends ReadScope {
  sort: AttributeDefinition | undefined;
}

/** Resolves the scope of a query. */
export function scopeOf(model: Model, terms: Terms): QueryScope {
  const definition = indexOf(model, 'query', terms.index);
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

/** Resolves the scope of a scan. */
export function scanScopeOf(model: Model, terms: ReadTerms): ReadScope {
  const definition = indexOf(model, 'scan', terms.index);
  const keys = [definition?.partition, definition?.sort].filter((key) => key !== undefined);
  const fields = new Set([...keys.map((key) => attributeOf(model, key.attribute)), ...model.keys]);
  return {
    table: model.tableName,
    index: definition?.name,
    definition,
    descending: false,
    partition: {},
    fields: [...fields],
  };
}

function indexOf(model: Model, call: string, name: string | undefined): IndexDefinition | undefined {
  if (name === undefined) {
    return undefined;
  }
  const found = model.definition.indexes?.find((index) => index.name === name);
  if (found === undefined) {
    throw new InvalidQueryError(`${call} ${model.name}: the model has no index ${name}; declare it in indexes`);
  }
  return found;
}

/** Builds the request for the page after `start`, or for the first page; `counts` if it is to count the items only. */
export function requestOf(
  model: Model,
  terms: Terms,
  scope: QueryScope,
  start: Item | undefined,
  counts: boolean,
): QueryCommandInput {
  const expressions = new Expressions();
  const keys = Object.entries(scope.partition).map(
    ([name, key]) => `${expressions.name(name)} = ${expressions.value(key)}`,
  );
  if (terms.sort !== undefined) {
    keys.push(sortCondition(model, expressions, scope.sort, terms.sort));
  }
  return {
    KeyConditionExpression: keys.join(' AND '),
    ...readRequest(model, 'query', terms, scope, expressions, counts),
    ScanIndexForward: !scope.descending,
    ExclusiveStartKey: start,
  };
}

/** Builds the request of a scan, like {@link requestOf}. */
export function scanRequestOf(
  model: Model,
  terms: ScanTerms,
  scope: ReadScope,
  start: Item | undefined,
  counts: boolean,
): ScanCommandInput {
  return {
    ...readRequest(model, 'scan', terms, scope, new Expressions(), counts),
    ExclusiveStartKey: start,
    Segment: terms.segment?.index,
    TotalSegments: terms.segment?.total,
  };
}

/** Builds the members that the requests of queries and scans share. */
function readRequest(
  model: Model,
  call: string,
  terms: ReadTerms,
  scope: ReadScope,
  expressions: Expressions,
  counts: boolean,
) {
  const FilterExpression = filterExpression(model, expressions, terms.filters);
  const ProjectionExpression = counts ? undefined : terms.select && projection(model, expressions, terms.select);
  return {
    Select: counts ? ('COUNT' as const) : undefined,
    TableName: scope.table,
    IndexName: scope.index,
    FilterExpression,
    ProjectionExpression,
    ...expressions.placeholders(),
    ConsistentRead: isConsistent(model, call, terms, scope),
    Limit: counts ? undefined : terms.limit,
  };
}

/** Builds a projection. An encrypted attribute can only be decrypted with the item's key. */
function projection(model: Model, expressions: Expressions, select: readonly string[]): string {
  const selected = select.map((name) => attributeOf(model, name));
  const read = selected.some((declared) => declared.encrypted) ? [...selected, ...model.keys] : selected;
  return [...new Set(read)].map(({ attribute }) => expressions.name(attribute)).join(', ');
}

function isConsistent(model: Model, call: string, terms: ReadTerms, scope: ReadScope): boolean {
  const isGlobal = scope.definition?.type === 'GSI';
  if (isGlobal && terms.consistent) {
    throw new InvalidInputError(
      `${call} ${model.name}: the global index ${scope.index} does not support consistent reads; leave consistentRead out`,
    );
  }
  return terms.consistent ?? !isGlobal;
}

function sortCondition(
  model: Model,
  expressions: Expressions,
  sort: AttributeDefinition | undefined,
  compared: Comparison<SortOperator>,
): string {
  if (sort === undefined) {
    throw new InvalidQueryError(`query ${model.name}: sortKey: the table or index has no sort key`);
  }
  return comparison(model, expressions, sort, compared, sort);
}
