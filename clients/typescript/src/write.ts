/** Writes of one item, sent alone or as an action of a transaction. */

import type { Precondition } from './classify.js';
import { InvalidInputError, InvalidQueryError } from './errors.js';
import { allOf, Expressions, type Placeholders, type RawCondition } from './expression.js';
import type { Item } from './item.js';
import { attributeOf, encodeItem, encodeKey, encodeMember, nameOf } from './marshal.js';
import type { AttributeDefinition, Model } from './model.js';
import { formatValue } from './value.js';

/** The members that all write requests share. */
export interface Conditional extends Placeholders {
  TableName: string;
  ConditionExpression?: string;
  ReturnValuesOnConditionCheckFailure?: 'ALL_OLD';
}

/** The members that all writes share. */
interface BaseWrite {
  readonly precondition: Precondition;
  readonly key: Item;
  /** The version that it stores; undefined if it does not set one. */
  readonly version?: number | undefined;
}

/** A put. */
export interface PutWrite extends BaseWrite {
  readonly kind: 'put';
  readonly request: Conditional & { Item: Item };
}

/** An update. */
export interface UpdateWrite extends BaseWrite {
  readonly kind: 'update';
  /** The attributes that it sets, including the version, and removes; undefined for a raw update expression. */
  readonly changes?: { readonly set: Item; readonly remove: readonly string[] };
  readonly request: Conditional & { Key: Item; UpdateExpression: string };
}

/** A delete. */
export interface DeleteWrite extends BaseWrite {
  readonly kind: 'delete';
  readonly request: Conditional & { Key: Item };
}

/** A condition check, which only a transaction can contain. */
export interface CheckWrite extends BaseWrite {
  readonly kind: 'conditionCheck';
  readonly request: Conditional & { Key: Item; ConditionExpression: string };
}

/** A write that can be sent outside a transaction. */
export type SingleWrite = PutWrite | UpdateWrite | DeleteWrite;

/** An action of a transaction. */
export type Write = SingleWrite | CheckWrite;

/** Builds the put of an item that must not exist. Its version is 1 unless the item has one. */
export function createOf(model: Model, item: unknown, raw: RawCondition): PutWrite {
  const builder = new WriteBuilder(model, raw);
  builder.require(`attribute_not_exists(${builder.partition()})`);
  return itemPut(builder, 'create', item, Math.max(versionOf(model, item) ?? 0, 1));
}

/**
 * Builds the put that replaces an item. The version is still checked and incremented:
 * otherwise the put would silently undo changes made since the item was read.
 */
export function putOf(model: Model, item: unknown, raw: RawCondition): PutWrite {
  const builder = new WriteBuilder(model, raw);
  return itemPut(builder, 'put', item, builder.requireVersion(versionOf(model, item) ?? 0));
}

/** Builds the put of a batch, which cannot have conditions. The version is incremented, so that a later conditional write detects the change. */
export function unconditionalPutOf(model: Model, item: unknown): PutWrite {
  const builder = new WriteBuilder(model, {});
  return itemPut(builder, 'put', item, nextVersion(model, versionOf(model, item) ?? 0));
}

function itemPut(builder: WriteBuilder, kind: string, item: unknown, version: number): PutWrite {
  const { model } = builder;
  const stored = encodeItem(model, item);
  const attribute = model.version?.attribute;
  const Item = attribute === undefined ? stored : { ...stored, [attribute]: { N: String(version) } };
  const key = encodeKey(model, item);
  const stamped = attribute === undefined ? undefined : version;
  return { kind: 'put', key, version: stamped, ...builder.finish(kind, key), request: { ...builder.request(), Item } };
}

/**
 * Builds the update that sets some attributes of an existing item to the values in `item`,
 * and removes those that are undefined there. With a version, the stored item must be
 * unchanged since it was read.
 */
export function updateOf(model: Model, item: unknown, fields: readonly string[], raw: RawCondition): UpdateWrite {
  const key = encodeKey(model, item);
  const builder = new WriteBuilder(model, raw);
  const version = model.version && builder.requireVersion(requiredVersion(model, item));
  builder.require(`attribute_exists(${builder.partition()})`);
  const changes = changesOf(model, item as Record<string, unknown>, fields);
  if (model.version !== undefined) {
    changes.set[model.version.attribute] = { N: String(version) };
  }
  const UpdateExpression = updateExpression(builder.expressions, changes);
  if (UpdateExpression === '') {
    throw new InvalidQueryError(`update ${nameOf(model, key)}: no attribute to change; name at least one field`);
  }
  return {
    kind: 'update',
    key,
    version,
    changes,
    ...builder.finish('update', key),
    request: { ...builder.request(), Key: key, UpdateExpression },
  };
}

/** Builds an update from a raw expression. The caller checks and increments versions. */
export function rawUpdateOf(model: Model, key: unknown, expression: string, raw: RawCondition): UpdateWrite {
  const Key = encodeKey(model, key);
  if (typeof expression !== 'string' || expression === '') {
    throw new InvalidQueryError(
      `update ${nameOf(model, Key)}: updateExpression is missing; set it, or item and fields`,
    );
  }
  const builder = new WriteBuilder(model, raw);
  const request = { ...builder.request(), Key, UpdateExpression: expression };
  return { kind: 'update', key: Key, ...builder.finish('update', Key), request };
}

/** Builds the delete of an item. If the key comes with a version, the stored item must have it. */
export function deleteOf(model: Model, key: unknown, raw: RawCondition): DeleteWrite {
  const Key = encodeKey(model, key);
  const builder = new WriteBuilder(model, raw);
  const version = versionOf(model, key);
  if (version !== undefined) {
    builder.requireVersion(version);
  }
  return {
    kind: 'delete',
    key: Key,
    ...builder.finish('delete', Key),
    request: { ...builder.request(), Key },
  };
}

/** Builds a condition check. */
export function conditionCheckOf(model: Model, key: unknown, raw: RawCondition): CheckWrite {
  const Key = encodeKey(model, key);
  if (!raw.conditionExpression) {
    throw new InvalidQueryError(`condition check of ${nameOf(model, Key)}: conditionExpression is missing`);
  }
  const builder = new WriteBuilder(model, raw);
  const request = { ...builder.request(), Key, ConditionExpression: raw.conditionExpression };
  return { kind: 'conditionCheck', key: Key, ...builder.finish('condition check', Key), request };
}

/** Collects the conditions and placeholders of a write. */
class WriteBuilder {
  readonly expressions = new Expressions();
  readonly #conditions: string[] = [];
  #requiredVersion: number | undefined;

  constructor(
    readonly model: Model,
    raw: RawCondition,
  ) {
    this.expressions.merge(raw);
    if (raw.conditionExpression) {
      this.#conditions.push(raw.conditionExpression);
    }
  }

  /** Returns the placeholder of the partition key, which every item has. */
  partition(): string {
    return this.expressions.name(this.model.definition.keys.partition.attribute);
  }

  require(condition: string): void {
    this.#conditions.push(condition);
  }

  /** Requires a stored version (0: the item has none) and returns the next one; 0 if the model has no versions. */
  requireVersion(version: number): number {
    if (this.model.version === undefined) {
      return 0;
    }
    const name = this.expressions.name(this.model.version.attribute);
    this.#requiredVersion = version;
    this.require(
      version === 0 ? `attribute_not_exists(${name})` : `${name} = ${this.expressions.value({ N: String(version) })}`,
    );
    return nextVersion(this.model, version);
  }

  request(): Conditional {
    const condition = allOf(...this.#conditions);
    return {
      TableName: this.model.tableName,
      ...(condition === undefined
        ? {}
        : { ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const }),
      ...this.expressions.placeholders(),
    };
  }

  finish(kind: string, key: Item): { precondition: Precondition } {
    const required = this.#requiredVersion;
    const attribute = this.model.version?.attribute;
    return {
      precondition: {
        name: `${kind} ${nameOf(this.model, key)} in table ${this.model.tableName}`,
        conflicts: (item) =>
          required !== undefined && attribute !== undefined && Number(item?.[attribute]?.N ?? 0) !== required,
      },
    };
  }
}

interface Changes {
  set: Item;
  remove: string[];
}

function changesOf(model: Model, item: Record<string, unknown>, fields: readonly string[]): Changes {
  const changes: Changes = { set: {}, remove: [] };
  for (const [i, field] of fields.entries()) {
    const declared = changeable(model, field);
    if (fields.indexOf(field) < i) {
      throw new InvalidQueryError(`update ${model.name}: the attribute ${field} is listed twice`);
    }
    const stored = encodeMember(model, declared, item[field]);
    if (stored === undefined) {
      changes.remove.push(field);
    } else {
      changes.set[field] = stored;
    }
  }
  return changes;
}

function updateExpression(expressions: Expressions, { set, remove }: Changes): string {
  const sets = Object.entries(set).map(([name, value]) => `${expressions.name(name)} = ${expressions.value(value)}`);
  const removes = remove.map((name) => expressions.name(name));
  return [clause('SET', sets), clause('REMOVE', removes)].filter(Boolean).join(' ');
}

function changeable(model: Model, field: string): AttributeDefinition {
  const declared = attributeOf(model, field);
  if (model.keys.includes(declared)) {
    throw new InvalidQueryError(
      `update ${model.name}: ${field} is a key and cannot be changed; create another item and delete this one`,
    );
  }
  if (declared === model.version) {
    throw new InvalidQueryError(
      `update ${model.name}: ${field} is the version, which updates increment themselves; leave it out`,
    );
  }
  return declared;
}

function clause(word: string, parts: readonly string[]): string {
  return parts.length === 0 ? '' : `${word} ${parts.join(', ')}`;
}

/** Returns the version of an item, undefined if it has none. */
function versionOf(model: Model, item: unknown): number | undefined {
  const attribute = model.version?.attribute;
  const version = attribute === undefined ? undefined : (item as Record<string, unknown> | null)?.[attribute];
  if (version === undefined) {
    return undefined;
  }
  if (typeof version !== 'number' || !Number.isSafeInteger(version) || version < 0) {
    throw new InvalidInputError(
      `${model.name}.${attribute}: expected a version, a itemPut number of at least 0, found ${formatValue(version)}`,
    );
  }
  return version;
}

function requiredVersion(model: Model, item: unknown): number {
  const version = versionOf(model, item);
  if (version === undefined) {
    throw new InvalidInputError(
      `${model.name}.${model.version?.attribute}: an update needs the version that was read; read the item and update that`,
    );
  }
  return version;
}

/** Returns the version after `version`. */
function nextVersion(model: Model, version: number): number {
  if (version >= Number.MAX_SAFE_INTEGER) {
    throw new InvalidInputError(
      `${model.name}.${model.version?.attribute}: the version ${version} cannot be incremented`,
    );
  }
  return version + 1;
}
