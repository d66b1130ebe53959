/** Writes of one item, sent alone or as an action of a transaction. */

import type { Precondition } from './classify.js';
import { floorSeconds } from './clock.js';
import { type Encrypter, type Sealing, sealingOf } from './encrypted.js';
import { InvalidInputError, InvalidQueryError } from './errors.js';
import { allOf, checkRaw, Expressions, type Placeholders, type RawCondition } from './expression.js';
import type { Item } from './item.js';
import { attributeOf, encodeItem, encodeKey, nameOf } from './marshal.js';
import { type AttributeDefinition, isOptional, type Model } from './model.js';
import type { Changes } from './update.js';
import { encode, formatValue } from './value.js';

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
  /** The version that it requires and increments; undefined if it compares none. */
  readonly version?: number | undefined;
  /** The version and the times that it stores, as values of the model. */
  readonly stamps: Readonly<Record<string, unknown>>;
}

/** A put. */
export interface PutWrite extends BaseWrite {
  readonly kind: 'put';
  /** What is to be encrypted before it is sent; undefined if nothing is. */
  readonly sealing: Sealing | undefined;
  readonly request: Conditional & { Item: Item };
}

/** An update. */
export interface UpdateWrite extends BaseWrite {
  readonly kind: 'update';
  /** The attributes that it sets, including the version, and removes; undefined if it computes values, or is a raw expression. */
  readonly changes: { readonly set: Item; readonly remove: readonly string[] } | undefined;
  /** What is to be encrypted before it is sent; undefined if nothing is. */
  readonly sealing: Sealing | undefined;
  /** It must not be repeated after a lost reply. */
  readonly once: boolean;
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
export function createOf(model: Model, item: unknown, raw: RawCondition, nowMs: number): PutWrite {
  const builder = new WriteBuilder(model, raw);
  builder.require(`attribute_not_exists(${builder.partition()})`);
  return itemPut(builder, 'create', item, Math.max(versionOf(model, item) ?? 0, 1), nowMs);
}

/**
 * Builds the put that replaces an item. The version is still checked and incremented:
 * otherwise the put would silently undo changes made since the item was read.
 */
export function putOf(model: Model, item: unknown, raw: RawCondition, nowMs: number): PutWrite {
  const builder = new WriteBuilder(model, raw);
  return itemPut(builder, 'put', item, builder.requireVersion(versionOf(model, item) ?? 0), nowMs);
}

/** Builds the put of a batch, which cannot have conditions. The version is incremented, so that a later conditional write detects the change. */
export function unconditionalPutOf(model: Model, item: unknown, nowMs: number): PutWrite {
  const builder = new WriteBuilder(model, {});
  return itemPut(builder, 'put', item, nextVersion(model, versionOf(model, item) ?? 0), nowMs);
}

function itemPut(builder: WriteBuilder, kind: string, item: unknown, version: number, nowMs: number): PutWrite {
  const { model } = builder;
  const encoded = encodeItem(model, item);
  const created = model.createdAt !== undefined && encoded[model.createdAt.attribute] === undefined;
  const stamps = Object.fromEntries([
    ...(model.version === undefined ? [] : [[model.version.attribute, version] as const]),
    ...(created ? timeStamp(model.createdAt, nowMs) : []),
    ...timeStamp(model.updatedAt, nowMs),
  ]);
  const Item = { ...encoded, ...encodeStamps(model, stamps) };
  const key = encodeKey(model, item);
  const stamped = model.version === undefined ? undefined : version;
  return {
    kind: 'put',
    key,
    version: stamped,
    stamps,
    sealing: sealingOf(model, key, Item),
    ...builder.finish(kind, key),
    request: { ...builder.request(), Item },
  };
}

/** Returns the entry that stores a time in an attribute; none if there is no such attribute. */
function timeStamp(declared: AttributeDefinition | undefined, nowMs: number): [string, string | number][] {
  if (declared === undefined) {
    return [];
  }
  // RFC 3339 as Go writes it, without trailing zeros of the fraction.
  const text = new Date(nowMs).toISOString().replace(/\.?0*Z$/, 'Z');
  return [[declared.attribute, declared.type === 'N' ? floorSeconds(nowMs) : text]];
}

function encodeStamps(model: Model, stamps: Readonly<Record<string, unknown>>): Item {
  const entries = Object.entries(stamps).map(
    ([name, value]) => [name, encode(attributeOf(model, name), value, `${model.name}.${name}`)] as const,
  );
  return Object.fromEntries(entries);
}

/** How an update treats a missing item: `update` refuses it, `upsert` creates it. */
export type UpdateKind = 'update' | 'upsert';

/** Builds an update. If the item has a version, the stored one must be the same; it is incremented in any case. */
export function updateOf(
  model: Model,
  kind: UpdateKind,
  item: unknown,
  changes: Changes,
  raw: RawCondition,
  nowMs: number,
): UpdateWrite {
  const key = encodeKey(model, item);
  if (changes.isEmpty) {
    throw new InvalidQueryError(`${kind} ${nameOf(model, key)}: no attribute to change; name at least one field`);
  }
  const builder = new WriteBuilder(model, raw);
  const given = versionOf(model, item);
  const version = given === undefined || model.version === undefined ? undefined : builder.requireVersion(given);
  if (kind === 'update') {
    builder.requireItem();
  } else {
    checkCreates(model, changes);
  }
  if (model.version !== undefined && version !== undefined) {
    changes.set(model.version.attribute, { N: String(version) });
  }
  const updated = model.updatedAt && !changes.has(model.updatedAt.attribute) ? timeStamp(model.updatedAt, nowMs) : [];
  for (const [name, value] of Object.entries(encodeStamps(model, Object.fromEntries(updated)))) {
    changes.set(name, value);
  }
  const increments = model.version !== undefined && version === undefined ? [builder.increment(model.version)] : [];
  const plain = increments.length === 0 ? changes.plain : undefined;
  const UpdateExpression = changes.expression(builder.expressions, increments);
  return {
    kind: 'update',
    key,
    version,
    stamps: {},
    once: version === undefined && !changes.isIdempotent,
    changes: plain,
    sealing: sealingOf(model, key, changes.sets),
    ...builder.finish(kind, key),
    request: { ...builder.request(), Key: key, UpdateExpression },
  };
}

/** Checks that an item that an upsert creates has all required attributes. */
function checkCreates(model: Model, changes: Changes): void {
  for (const declared of model.attributes.values()) {
    const isSet = changes.has(declared.attribute) || model.keys.includes(declared);
    if (!isSet && !isOptional(declared) && declared !== model.version && declared !== model.updatedAt) {
      throw new InvalidInputError(
        `upsert ${model.name}: it may create the item, but does not set ${declared.attribute}, which is required`,
      );
    }
  }
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
  checkRaw(model, `update ${nameOf(model, Key)}`, expression, raw.expressionAttributeNames);
  const request = { ...builder.request(), Key, UpdateExpression: expression };
  const plain = { changes: undefined, sealing: undefined };
  return { kind: 'update', key: Key, stamps: {}, once: false, ...plain, ...builder.finish('update', Key), request };
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
    stamps: {},
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
  return { kind: 'conditionCheck', key: Key, stamps: {}, ...builder.finish('condition check', Key), request };
}

/** Returns the write with its encrypted attributes encrypted. */
export async function sealed<W extends Write>(
  encrypter: Encrypter,
  write: W,
  signal: AbortSignal | undefined,
): Promise<W> {
  if (!('sealing' in write) || write.sealing === undefined) {
    return write;
  }
  const { name } = write.precondition;
  return withSealed(write, write.sealing.attributes, await encrypter.seal(name, write.sealing, signal));
}

/** Returns a write that stores the sealed values instead of the plain ones. */
function withSealed<W extends Write>(write: W, plain: Item, sealed: Item): W {
  if (write.kind === 'put') {
    return { ...write, sealing: undefined, request: { ...write.request, Item: { ...write.request.Item, ...sealed } } };
  }
  if (write.kind !== 'update') {
    return write;
  }
  const replacements = new Map(Object.entries(plain).map(([name, value]) => [value, sealed[name]]));
  const values = Object.entries(write.request.ExpressionAttributeValues ?? {});
  const request = {
    ...write.request,
    ExpressionAttributeValues: Object.fromEntries(
      values.map(([placeholder, value]) => [placeholder, replacements.get(value) ?? value]),
    ),
  };
  const changes = write.changes && { ...write.changes, set: { ...write.changes.set, ...sealed } };
  return { ...write, sealing: undefined, changes, request };
}

/** Collects the conditions and placeholders of a write. */
class WriteBuilder {
  readonly expressions = new Expressions();
  readonly #conditions: string[] = [];
  #requiredVersion: number | undefined;
  #mustExist = false;

  constructor(
    readonly model: Model,
    raw: RawCondition,
  ) {
    this.expressions.merge(raw);
    if (raw.conditionExpression) {
      checkRaw(model, `a condition on ${model.name}`, raw.conditionExpression, raw.expressionAttributeNames);
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

  /** Requires the item to exist. */
  requireItem(): void {
    this.#mustExist = true;
    this.require(`attribute_exists(${this.partition()})`);
  }

  /** Returns the assignment that increments the version, whatever is stored. */
  increment(declared: AttributeDefinition): string {
    const name = this.expressions.name(declared.attribute);
    return `${name} = if_not_exists(${name}, ${this.expressions.value({ N: '0' })}) + ${this.expressions.value({ N: '1' })}`;
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
        mustExist: this.#mustExist,
        conflicts: (item) =>
          required !== undefined && attribute !== undefined && Number(item?.[attribute]?.N ?? 0) !== required,
      },
    };
  }
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
      `${model.name}.${attribute}: expected a version, a whole number of at least 0, found ${formatValue(version)}`,
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
