export {
  type CallOptions,
  type ModelOf,
  type ReadOptions,
  type RegisteredModels,
  TheorydbClient,
  type TheorydbClientOptions,
  type TransactOptions,
  type WriteOptions,
} from './client.js';
export type { Clock } from './clock.js';
export type { Encryption, ItemLocation } from './encrypted.js';
export * from './errors.js';
export type { RawCondition } from './expression.js';
export {
  type Comparison,
  type ContainedIn,
  type Filter,
  FilterBuilder,
  type FilterOperator,
  type FilterOperatorOf,
  type Operands,
  type SortOperator,
} from './filter.js';
export type { Filterable, FilterGroup } from './filterable.js';
export type {
  AttributeNameOf,
  AttributeOf,
  FieldOf,
  IndexNameOf,
  InputOf,
  ItemOf,
  KeyOf,
  LooseItem,
  PartitionValueOf,
  PartOf,
  PlainFieldOf,
  SortValueOf,
  ValueAt,
  ValueOf,
} from './infer.js';
export * from './isr/index.js';
export type { Item } from './item.js';
export {
  type JobLease,
  type KeptLease,
  type LeaseKey,
  LeaseManager,
  type LeaseManagerOptions,
  type LeaseTerm,
} from './leases/manager.js';
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
export type { TableOptions } from './provision.js';
export type { Query } from './query.js';
export type { Page, Reader } from './reader.js';
export type { RetryOptions } from './retry.js';
export type { Scan } from './scan.js';
export {
  type StreamImage,
  type StreamItems,
  type StreamRecord,
  unmarshalStreamImage,
  unmarshalStreamRecord,
} from './streams.js';
export type {
  ModelName,
  TransactAction,
  TransactConditionCheck,
  TransactDelete,
  TransactPut,
  TransactUpdate,
  TransactUpdateBuilder,
  TransactUpdateFields,
} from './transact.js';
export type { Addable, UpdateBuilder } from './update.js';
export type { AttributeType, DocumentList, DocumentMap, DocumentValue, NumberForm } from './value.js';
