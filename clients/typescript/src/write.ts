/** Single writes, to be sent alone or as an action of a transaction. */

import type { Demand } from './classify.js';
import { InvalidInputError, InvalidQueryError } from './errors.js';
import { allOf, Expressions, type Placeholders, type RawCondition } from './expression.js';
import type { Item } from './item.js';
import { attributeOf, encodeItem, encodeKey, encodeMember, nameOf } from './marshal.js';
import type { AttributeDefinition, Model } from './model.js';
import { shown } from './value.js';

/** What both kinds of requests have in common. */
export interface Conditional extends Placeholders {
  TableName: string;
  ConditionExpression?: string;
  ReturnValuesOnConditionCheckFailure?: 'ALL_OLD';
}

/** What every write has. */
interface Ready {
  readonly demand: Demand;
  readonly key: Item;
  /** The version that it stores; undefined if it stores none of its own. */
  readonly version?: number | undefined;
}

/** A put that is ready to be sent. */
export interface PutWrite extends Ready {
  readonly kind: 'put';
  readonly request: Conditional & { Item: Item };
}

/** An update that is ready to be sent. */
export interface UpdateWrite extends Ready {
  readonly kind: 'update';
  /** The attributes that it sets, the version included, and those that it removes; undefined if it is in the caller's own words. */
  readonly changes?: { readonly set: Item; readonly remove: readonly string[] };
  readonly request: Conditional & { Key: Item; UpdateExpression: string };
}

/** A deletion that is ready to be sent. */
export interface DeleteWrite extends Ready {
  readonly kind: 'delete';
  readonly request: Conditional & { Key: Item };
}

/** An action of a transaction that only demands. */
export interface CheckWrite extends Ready {
  readonly kind: 'conditionCheck';
  readonly request: Conditional & { Key: Item; ConditionExpression: string };
}

/** A write that can be sent alone. */
export type SingleWrite = PutWrite | UpdateWrite | DeleteWrite;

/** An action of a transaction. */
export type Write = SingleWrite | CheckWrite;

/**
 * Makes the put of a whole item that may not exist yet. Its version is 1, unless it
 * has one already.
 */
export function createOf(model: Model, item: unknown, raw: RawCondition): PutWrite {
  const draft = new Draft(model, raw);
  draft.require(`attribute_not_exists(${draft.partition()})`);
  return whole(draft, 'create', item, Math.max(versionOf(model, item) ?? 0, 1));
}

/**
 * Makes the put of a whole item over whatever was there. A version is compared and
 * counted all the same: a put that did neither would undo, unnoticed, what others
 * did to the item since it was read.
 */
export function putOf(model: Model, item: unknown, raw: RawCondition): PutWrite {
  const draft = new Draft(model, raw);
  return whole(draft, 'put', item, draft.demandVersion(versionOf(model, item) ?? 0));
}

/** Makes the put that a batch has, which cannot demand anything: versions are counted, so that whoever read the item notices. */
export function unconditionalPutOf(model: Model, item: unknown): PutWrite {
  const draft = new Draft(model, {});
  return whole(draft, 'put', item, following(model, versionOf(model, item) ?? 0));
}

function whole(draft: Draft, kind: string, item: unknown, version: number): PutWrite {
  const { model } = draft;
  const stored = encodeItem(model, item);
  const attribute = model.version?.attribute;
  const Item = attribute === undefined ? stored : { ...stored, [attribute]: { N: String(version) } };
  const key = encodeKey(model, item);
  const stamped = attribute === undefined ? undefined : version;
  return { kind: 'put', key, version: stamped, ...draft.finish(kind, key), request: { ...draft.request(), Item } };
}

/**
 * Makes the update of some attributes of an item that exists to what the given item
 * has; one that is undefined there is removed. With a version the item has to be as
 * it was read.
 */
export function updateOf(model: Model, item: unknown, fields: readonly string[], raw: RawCondition): UpdateWrite {
  const key = encodeKey(model, item);
  const draft = new Draft(model, raw);
  const version = model.version && draft.demandVersion(demandedVersion(model, item));
  draft.require(`attribute_exists(${draft.partition()})`);
  const changes = changesOf(model, item as Record<string, unknown>, fields);
  if (model.version !== undefined) {
    changes.set[model.version.attribute] = { N: String(version) };
  }
  const UpdateExpression = updateExpression(draft.expressions, changes);
  if (UpdateExpression === '') {
    throw new InvalidQueryError(`update ${nameOf(model, key)}: no attribute is named; say which are to be changed`);
  }
  return {
    kind: 'update',
    key,
    version,
    changes,
    ...draft.finish('update', key),
    request: { ...draft.request(), Key: key, UpdateExpression },
  };
}

/** Makes an update in DynamoDB's own words. Versions are the caller's to compare and to count. */
export function rawUpdateOf(model: Model, key: unknown, expression: string, raw: RawCondition): UpdateWrite {
  const Key = encodeKey(model, key);
  if (typeof expression !== 'string' || expression === '') {
    throw new InvalidQueryError(
      `update ${nameOf(model, Key)}: updateExpression is missing; give it, or item and fields`,
    );
  }
  const draft = new Draft(model, raw);
  const request = { ...draft.request(), Key, UpdateExpression: expression };
  return { kind: 'update', key: Key, ...draft.finish('update', Key), request };
}

/** Makes the deletion of an item; a version that is given with the key is demanded. */
export function deleteOf(model: Model, key: unknown, raw: RawCondition): DeleteWrite {
  const Key = encodeKey(model, key);
  const draft = new Draft(model, raw);
  const version = versionOf(model, key);
  if (version !== undefined) {
    draft.demandVersion(version);
  }
  return {
    kind: 'delete',
    key: Key,
    ...draft.finish('delete', Key),
    request: { ...draft.request(), Key },
  };
}

/** Makes an action that only demands. */
export function conditionCheckOf(model: Model, key: unknown, raw: RawCondition): CheckWrite {
  const Key = encodeKey(model, key);
  if (!raw.conditionExpression) {
    throw new InvalidQueryError(`condition check of ${nameOf(model, Key)}: conditionExpression is missing`);
  }
  const draft = new Draft(model, raw);
  const request = { ...draft.request(), Key, ConditionExpression: raw.conditionExpression };
  return { kind: 'conditionCheck', key: Key, ...draft.finish('condition check', Key), request };
}

/** A write in the making: its conditions and placeholders. */
class Draft {
  readonly expressions = new Expressions();
  readonly #conditions: string[] = [];
  #demanded: number | undefined;

  constructor(
    readonly model: Model,
    raw: RawCondition,
  ) {
    this.expressions.take(raw);
    if (raw.conditionExpression) {
      this.#conditions.push(raw.conditionExpression);
    }
  }

  /** The placeholder of the partition key: no item is without it. */
  partition(): string {
    return this.expressions.name(this.model.definition.keys.partition.attribute);
  }

  require(condition: string): void {
    this.#conditions.push(condition);
  }

  /** Demands a version, 0 being that the item has none, and returns the one after it; 0 if the model has no versions. */
  demandVersion(version: number): number {
    if (this.model.version === undefined) {
      return 0;
    }
    const name = this.expressions.name(this.model.version.attribute);
    this.#demanded = version;
    this.require(
      version === 0 ? `attribute_not_exists(${name})` : `${name} = ${this.expressions.value({ N: String(version) })}`,
    );
    return following(this.model, version);
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

  finish(kind: string, key: Item): { demand: Demand } {
    const demanded = this.#demanded;
    const attribute = this.model.version?.attribute;
    return {
      demand: {
        name: `${kind} ${nameOf(this.model, key)} in table ${this.model.tableName}`,
        conflicts: (item) =>
          demanded !== undefined && attribute !== undefined && Number(item?.[attribute]?.N ?? 0) !== demanded,
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
      throw new InvalidQueryError(`update ${model.name}: the attribute ${field} is named twice`);
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
      `update ${model.name}: ${field} is a key, which cannot be changed: create another item, and delete this one`,
    );
  }
  if (declared === model.version) {
    throw new InvalidQueryError(
      `update ${model.name}: ${field} is the version, which every update counts by itself; leave it out`,
    );
  }
  return declared;
}

function clause(word: string, parts: readonly string[]): string {
  return parts.length === 0 ? '' : `${word} ${parts.join(', ')}`;
}

/** The version that an item has; undefined if it has none. */
function versionOf(model: Model, item: unknown): number | undefined {
  const attribute = model.version?.attribute;
  const version = attribute === undefined ? undefined : (item as Record<string, unknown> | null)?.[attribute];
  if (version === undefined) {
    return undefined;
  }
  if (typeof version !== 'number' || !Number.isSafeInteger(version) || version < 0) {
    throw new InvalidInputError(
      `${model.name}.${attribute}: expected a version, a whole number from 0, found ${shown(version)}`,
    );
  }
  return version;
}

function demandedVersion(model: Model, item: unknown): number {
  const version = versionOf(model, item);
  if (version === undefined) {
    throw new InvalidInputError(
      `${model.name}.${model.version?.attribute}: an update needs the version that was read; read the item, and update that`,
    );
  }
  return version;
}

/** The version after one. */
function following(model: Model, version: number): number {
  if (version >= Number.MAX_SAFE_INTEGER) {
    throw new InvalidInputError(`${model.name}.${model.version?.attribute}: no version comes after ${version}`);
  }
  return version + 1;
}
