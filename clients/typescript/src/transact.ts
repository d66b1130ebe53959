/** Transactions: the caller's actions, and the request built from them. */

import { InvalidQueryError } from './errors.js';
import type { RawCondition } from './expression.js';
import { identityOf } from './identity.js';
import type { FieldOf, InputOf, ItemOf, KeyOf } from './infer.js';
import type { Model } from './model.js';
import { checkOptions } from './options.js';
import { builtChanges, fieldChanges, type UpdateBuilder } from './update.js';
import { conditionCheckOf, createOf, deleteOf, putOf, rawUpdateOf, updateOf, type Write } from './write.js';

/** A registered model, or its name. */
export type ModelName<M extends Model> = M['name'] | M;

/** Stores an item. If the model has a version, it is checked and incremented. */
export interface TransactPut<M extends Model> extends RawCondition {
  kind: 'put';
  model: ModelName<M>;
  item: InputOf<M>;
  /** The item must not exist. */
  ifNotExists?: boolean;
}

/** Updates an item by a raw update expression. */
export interface TransactUpdate<M extends Model> extends RawCondition {
  kind: 'update';
  model: ModelName<M>;
  key: KeyOf<M>;
  updateExpression: string;
}

/** Sets some attributes of an existing item, or with `upsert` of one that may be missing; see `TheorydbClient.update`. */
export interface TransactUpdateFields<M extends Model> extends RawCondition {
  kind: 'update' | 'upsert';
  model: ModelName<M>;
  item: KeyOf<M> & Partial<ItemOf<M>>;
  fields: readonly FieldOf<M>[];
}

/** Changes an item by an update builder; see `TheorydbClient.update`. */
export interface TransactUpdateBuilder<M extends Model> extends RawCondition {
  kind: 'update' | 'upsert';
  model: ModelName<M>;
  item: KeyOf<M> & Partial<ItemOf<M>>;
  changes: (update: UpdateBuilder<M>) => unknown;
}

/** Deletes an item. */
export interface TransactDelete<M extends Model> extends RawCondition {
  kind: 'delete';
  model: ModelName<M>;
  key: KeyOf<M> & Partial<ItemOf<M>>;
}

/** Checks a condition on an item without changing it. */
export interface TransactConditionCheck<M extends Model> extends RawCondition {
  kind: 'conditionCheck';
  model: ModelName<M>;
  key: KeyOf<M>;
  conditionExpression: string;
}

/** One action of a transaction, of any of the models. */
export type TransactAction<M extends Model = Model> = M extends Model
  ?
      | TransactPut<M>
      | TransactUpdate<M>
      | TransactUpdateFields<M>
      | TransactUpdateBuilder<M>
      | TransactDelete<M>
      | TransactConditionCheck<M>
  : never;

/** DynamoDB's limits: actions per transaction, and characters per client token. */
const maxActions = 100;
const maxToken = 36;

const written = {
  kind: true,
  model: true,
  conditionExpression: true,
  expressionAttributeNames: true,
  expressionAttributeValues: true,
} as const;

/** The members of the actions of each kind. */
const members: Readonly<Record<TransactAction['kind'], Readonly<Record<string, true>>>> = {
  put: { ...written, item: true, ifNotExists: true },
  update: { ...written, item: true, key: true, fields: true, changes: true, updateExpression: true },
  upsert: { ...written, item: true, fields: true, changes: true },
  delete: { ...written, key: true },
  conditionCheck: { ...written, key: true },
};

/** TableTheory's members of actions that are called otherwise here. */
const replaced = { updateFn: 'pass the key as item, and the function as changes' };

/** An action on any model. */
type AnyAction = TransactAction<Model>;

/**
 * Builds the writes of a transaction.
 *
 * @throws InvalidQueryError if there are no actions, too many, or two on one item.
 */
export function writesOf(
  actions: readonly unknown[],
  resolve: (model: string | Model) => Model,
  nowMs: number,
): Write[] {
  if (!Array.isArray(actions) || actions.length === 0 || actions.length > maxActions) {
    throw new InvalidQueryError(
      `a transaction must have 1 to ${maxActions} actions (got ${actions?.length ?? 'none'})`,
    );
  }
  const writes = actions.map((action, i) => writeOf(action as AnyAction, i, resolve, nowMs));
  const seen = new Map<string, number>();
  for (const [i, write] of writes.entries()) {
    const identity = `${write.request.TableName} ${identityOf(write.key)}`;
    const first = seen.get(identity);
    if (first !== undefined) {
      throw new InvalidQueryError(
        `actions ${first} and ${i} of the transaction are on the same item, ${write.precondition.name}: merge them, with conditions in the write itself`,
      );
    }
    seen.set(identity, i);
  }
  return writes;
}

function writeOf(action: AnyAction, index: number, resolve: (model: string | Model) => Model, nowMs: number): Write {
  const model = resolve(action?.model);
  if (Object.hasOwn(members, action.kind)) {
    checkOptions(`action ${index} of the transaction, ${action.kind},`, action, members[action.kind], replaced);
  }
  switch (action.kind) {
    case 'put':
      return action.ifNotExists
        ? createOf(model, action.item, action, nowMs)
        : putOf(model, action.item, action, nowMs);
    case 'update':
    case 'upsert': {
      if ('updateExpression' in action || !('item' in action)) {
        return rawUpdateOf(model, action.key, action.updateExpression, action);
      }
      const changes =
        'changes' in action
          ? builtChanges(model, action.changes)
          : fieldChanges(model, action.item as Record<string, unknown>, action.fields);
      return updateOf(model, action.kind, action.item, changes, action, nowMs);
    }
    case 'delete':
      return deleteOf(model, action.key, action);
    case 'conditionCheck':
      return conditionCheckOf(model, action.key, action);
    default:
      throw new InvalidQueryError(
        `action ${index} of the transaction has the kind ${(action as { kind: unknown }).kind}; expected put, update, upsert, delete or conditionCheck`,
      );
  }
}

/** Converts a write to an action of the SDK's request. */
export function transactItem(write: Write) {
  switch (write.kind) {
    case 'put':
      return { Put: write.request };
    case 'update':
      return { Update: write.request };
    case 'delete':
      return { Delete: write.request };
    case 'conditionCheck':
      return { ConditionCheck: write.request };
  }
}

/** Checks a client token. @throws InvalidQueryError */
export function checkToken(token: string | undefined): void {
  if (token !== undefined && (typeof token !== 'string' || token === '' || [...token].length > maxToken)) {
    throw new InvalidQueryError(
      `clientRequestToken must have 1 to ${maxToken} characters (got ${JSON.stringify(token)})`,
    );
  }
}
