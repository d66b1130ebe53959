export {
  type CallOptions,
  type ReadOptions,
  TheorydbClient,
  type TheorydbClientOptions,
  type TransactOptions,
  type WriteOptions,
} from './client.js';
export * from './errors.js';
export type { RawCondition } from './expression.js';
export type { InputOf, ItemOf, KeyOf } from './infer.js';
export * from './isr/index.js';
export { type JobLease, type LeaseKey, LeaseManager, type LeaseManagerOptions, type LeaseTerm } from './lease.js';
export {
  type AttributeDefinition,
  defineModel,
  type IndexDefinition,
  type KeyDefinition,
  type Model,
  type ModelDefinition,
  type Role,
} from './model.js';
export { type Outcome, outcomeOf } from './outcome.js';
export type { Page, Query } from './query.js';
export type { FilterOperator, SortOperator } from './queryrequest.js';
export type { RetryOptions } from './retry.js';
export type { TransactAction } from './transact.js';
export type { AttributeType, DocumentValue } from './value.js';
