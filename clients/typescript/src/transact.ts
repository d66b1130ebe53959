/** Transactions: the actions that callers state, and the request that they become. */

import { InvalidQueryError } from './errors.js';
import type { RawCondition } from './expression.js';
import { identityOf } from './identity.js';
import type { FieldOf, InputOf, ItemOf, KeyOf } from './infer.js';
import type { Model } from './model.js';
import { conditionCheckOf, createOf, deleteOf, putOf, rawUpdateOf, updateOf, type Write } from './write.js';

/** Names a registered model: itself, or its name. */
export type ModelName<M extends Model> = M['name'] | M;

/** Stores a whole item; a model with a version demands and counts it. */
export interface TransactPut<M extends Model> extends RawCondition {
  kind: 'put';
  model: ModelName<M>;
  item: InputOf<M>;
  /** The item may not exist yet. */
  ifNotExists?: boolean;
}

/** Changes an item in DynamoDB's own words. */
export interface TransactUpdate<M extends Model> extends RawCondition {
  kind: 'update';
  model: ModelName<M>;
  key: KeyOf<M>;
  updateExpression: string;
}

/** Changes some attributes of an item that exists to what the given item has; see `TheorydbClient.update`. */
export interface TransactUpdateFields<M extends Model> extends RawCondition {
  kind: 'update';
  model: ModelName<M>;
  item: KeyOf<M> & Partial<ItemOf<M>>;
  fields: readonly FieldOf<M>[];
}

/** Deletes an item. */
export interface TransactDelete<M extends Model> extends RawCondition {
  kind: 'delete';
  model: ModelName<M>;
  key: KeyOf<M> & Partial<ItemOf<M>>;
}

/** Demands something of an item, and leaves it as it is. */
export interface TransactConditionCheck<M extends Model> extends RawCondition {
  kind: 'conditionCheck';
  model: ModelName<M>;
  key: KeyOf<M>;
  conditionExpression: string;
}

/** One action of a transaction, of any of the models. */
export type TransactAction<M extends Model = Model> = M extends Model
  ? TransactPut<M> | TransactUpdate<M> | TransactUpdateFields<M> | TransactDelete<M> | TransactConditionCheck<M>
  : never;

/** Bounds of a transaction: of its actions, and of its token in characters. */
const maxActions = 100;
const maxToken = 36;

/** An action, whatever its model. */
type AnyAction = TransactAction<Model>;

/**
 * Makes the writes of a transaction.
 *
 * @throws InvalidQueryError if there are no actions, too many, or two on one item.
 */
export function writesOf(actions: readonly unknown[], resolve: (model: string | Model) => Model): Write[] {
  if (!Array.isArray(actions) || actions.length === 0 || actions.length > maxActions) {
    throw new InvalidQueryError(`a transaction has 1 to ${maxActions} actions, not ${actions?.length ?? 'none'}`);
  }
  const writes = actions.map((action, i) => writeOf(action as AnyAction, i, resolve));
  const seen = new Map<string, number>();
  for (const [i, write] of writes.entries()) {
    const identity = `${write.request.TableName} ${identityOf(write.key)}`;
    const first = seen.get(identity);
    if (first !== undefined) {
      throw new InvalidQueryError(
        `actions ${first} and ${i} of a transaction are on one item, ${write.demand.name}: a transaction changes an item once; join them, and state conditions with the change`,
      );
    }
    seen.set(identity, i);
  }
  return writes;
}

function writeOf(action: AnyAction, index: number, resolve: (model: string | Model) => Model): Write {
  const model = resolve(action?.model);
  switch (action.kind) {
    case 'put':
      return action.ifNotExists ? createOf(model, action.item, action) : putOf(model, action.item, action);
    case 'update':
      return 'item' in action
        ? updateOf(model, action.item, action.fields, action)
        : rawUpdateOf(model, action.key, action.updateExpression, action);
    case 'delete':
      return deleteOf(model, action.key, action);
    case 'conditionCheck':
      return conditionCheckOf(model, action.key, action);
    default:
      throw new InvalidQueryError(
        `action ${index} of a transaction has the kind ${(action as { kind: unknown }).kind}; expected put, update, delete or conditionCheck`,
      );
  }
}

/** The write as an action of the SDK's request. */
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

/** Checks the token by which DynamoDB knows a transaction that is sent twice. */
export function checkToken(token: string | undefined): void {
  if (token !== undefined && (typeof token !== 'string' || token === '' || [...token].length > maxToken)) {
    throw new InvalidQueryError(
      `clientRequestToken: expected 1 to ${maxToken} characters, found ${JSON.stringify(token)}`,
    );
  }
}
