/**
 * Models declare the items of a table. A model is validated when it is defined; the type
 * of its items is inferred, see `ItemOf`.
 */

import { InvalidModelError } from './errors.js';
import { type Hints, type Members, unknownOption } from './options.js';
import type { AttributeType, NumberForm } from './value.js';

/**
 * The role of an attribute:
 *
 * - `pk`, `sk`: the table's keys, as named by `keys`.
 * - `version`: N; optimistic locking. A write requires the version that was read and
 *   stores the next one; a concurrent writer gets a `VersionConflictError`.
 * - `ttl`: N; when DynamoDB may delete the item, in epoch seconds. It is for garbage
 *   collection; correctness never depends on it.
 * - `created_at`: S or N; set by `create` and `put`, unless the item has it.
 * - `updated_at`: S or N; set by every write.
 *
 * The two times are whole epoch seconds (N) or RFC 3339 in UTC (S).
 */
export type Role = 'pk' | 'sk' | 'version' | 'ttl' | 'created_at' | 'updated_at';

/** A key attribute. */
export interface KeyDefinition {
  readonly attribute: string;
  readonly type: 'S' | 'N' | 'B';
}

/** An attribute. It is required unless `optional` or `omit_empty` is set. */
export interface AttributeDefinition {
  readonly attribute: string;
  readonly type: AttributeType;
  /** For N and NS: the JavaScript type of its numbers. Default: `number`. */
  readonly as?: NumberForm;
  readonly roles?: readonly Role[];
  readonly required?: boolean;
  /** Items may lack it. */
  readonly optional?: boolean;
  /**
   * Stores the attribute encrypted, with the keys of the client's option `encryption`. Keys
   * of the table and of indexes cannot be encrypted, nor attributes with a role. DynamoDB
   * cannot compare it or compute with it: filters can only check whether it exists, and
   * updates set or remove it.
   */
  readonly encrypted?: boolean;
  /** Omits the attribute while its value is false, 0, '', or has no bytes or members. It implies `optional`. */
  readonly omit_empty?: boolean;
}

/** A secondary index. */
export interface IndexDefinition {
  readonly name: string;
  readonly type: 'GSI' | 'LSI';
  readonly partition: KeyDefinition;
  readonly sort?: KeyDefinition;
}

/** The argument of `defineModel`. */
export interface ModelDefinition {
  /** The name that calls and error messages use. */
  readonly name: string;
  readonly table: { readonly name: string };
  readonly keys: { readonly partition: KeyDefinition; readonly sort?: KeyDefinition };
  readonly attributes: readonly AttributeDefinition[];
  readonly indexes?: readonly IndexDefinition[];
}

/** A validated model. It is immutable and may be shared. */
export interface Model<D extends ModelDefinition = ModelDefinition> {
  readonly name: D['name'];
  readonly tableName: string;
  readonly definition: D;
  /** The attributes by name. */
  readonly attributes: ReadonlyMap<string, AttributeDefinition>;
  /** The one or two key attributes of the table. */
  readonly keys: readonly AttributeDefinition[];
  /** The attribute with the role `version`. */
  readonly version: AttributeDefinition | undefined;
  /** The attributes with the roles `created_at`, `updated_at` and `ttl`. */
  readonly createdAt: AttributeDefinition | undefined;
  readonly updatedAt: AttributeDefinition | undefined;
  readonly ttl: AttributeDefinition | undefined;
  /** The encrypted attributes. */
  readonly encrypted: readonly AttributeDefinition[];
}

/**
 * Defines a model.
 *
 * @throws InvalidModelError naming the model and the attribute.
 */
export function defineModel<const D extends ModelDefinition>(definition: D): Model<D> {
  const fail = (problem: string): never => {
    throw new InvalidModelError(`the model ${definition?.name || 'without a name'}: ${problem}`);
  };
  if (!definition?.name) {
    fail('name is missing');
  }
  checkMembers(definition, fail);
  if (!definition.table?.name) {
    fail('table.name is empty or missing; if it comes from an environment variable, is that set?');
  }
  const attributes = attributesOf(definition, fail);
  const { partition, sort } = definition.keys ?? {};
  if (partition === undefined) {
    fail('keys.partition is missing');
  }
  const keys = [partition, sort].filter((key) => key !== undefined).map((key) => keyOf(key, attributes, fail));
  checkKeyRoles(definition, attributes, fail);
  checkIndexes(definition.indexes ?? [], attributes, fail);
  return Object.freeze({
    name: definition.name,
    tableName: definition.table.name,
    definition,
    attributes,
    keys,
    version: attributeWithRole('version', attributes, fail),
    createdAt: attributeWithRole('created_at', attributes, fail),
    updatedAt: attributeWithRole('updated_at', attributes, fail),
    ttl: attributeWithRole('ttl', attributes, fail),
    encrypted: [...attributes.values()].filter((declared) => declared.encrypted),
  });
}

const modelMembers: Members<ModelDefinition> = { name: true, table: true, keys: true, attributes: true, indexes: true };
const keyMembers: Members<KeyDefinition> = { attribute: true, type: true };
const indexMembers: Members<IndexDefinition> = { name: true, type: true, partition: true, sort: true };
const attributeMembers: Members<AttributeDefinition> = {
  attribute: true,
  type: true,
  as: true,
  roles: true,
  required: true,
  optional: true,
  encrypted: true,
  omit_empty: true,
};

/** TableTheory's members of models. Without a refusal a secret would be stored in plain text, and a protected item changed. */
const replaced: Hints = {
  encryption: 'its name here is encrypted, which is true or false',
  write_policy: 'there are no write-once models and protected attributes here: use create, and conditions',
  projection: 'indexes contain all attributes',
  naming: 'leave it out: attributes have the names that are declared',
  json: 'declare the type M or L, or store the text that JSON.stringify returns',
  binary: 'declare the type B',
  format: 'leave it out: values are stored as they are',
  converter: 'convert values before writes and after reads',
};

/** Refuses members that no definition has. */
function checkMembers({ keys, attributes, indexes, ...definition }: ModelDefinition, fail: Fail): void {
  const check = (what: string, of: object | undefined, known: Readonly<Record<string, true>>) => {
    const unknown = typeof of === 'object' && of !== null ? unknownOption(of, known, replaced) : undefined;
    if (unknown !== undefined) fail(`${what} has no member ${unknown}`);
  };
  check('it', definition, modelMembers);
  check('keys', keys, { partition: true, sort: true });
  for (const declared of attributes ?? []) check(`the attribute ${declared?.attribute}`, declared, attributeMembers);
  for (const index of indexes ?? []) check(`the index ${index?.name}`, index, indexMembers);
  const parts = [keys, ...(indexes ?? [])].flatMap((of) => [of?.partition, of?.sort]);
  for (const key of parts) check(`the key ${key?.attribute}`, key, keyMembers);
}

type Attributes = ReadonlyMap<string, AttributeDefinition>;
type Fail = (problem: string) => never;

const types: readonly string[] = ['S', 'N', 'B', 'BOOL', 'NULL', 'M', 'L', 'SS', 'NS', 'BS'];
const roles: readonly string[] = ['pk', 'sk', 'version', 'ttl', 'created_at', 'updated_at'];

function attributesOf(definition: ModelDefinition, fail: Fail): Attributes {
  const attributes = new Map<string, AttributeDefinition>();
  for (const declared of definition.attributes ?? []) {
    if (!declared?.attribute) {
      fail(`attributes[${attributes.size}].attribute is missing`);
    }
    if (attributes.has(declared.attribute)) {
      fail(`the attribute ${declared.attribute} is declared twice`);
    }
    checkAttribute(declared, (problem) => fail(`the attribute ${declared.attribute} ${problem}`));
    attributes.set(declared.attribute, declared);
  }
  return attributes;
}

function checkAttribute(declared: AttributeDefinition, fail: Fail): void {
  if (!types.includes(declared.type)) {
    fail(`has the type ${declared.type}; expected one of ${types.join(', ')}`);
  }
  if (declared.required && (declared.optional || declared.omit_empty)) {
    fail('is both required and optional');
  }
  if (declared.as !== undefined && !['bigint', 'string'].includes(declared.as)) {
    fail(`has as: ${declared.as}; expected bigint or string`);
  }
  if (declared.as !== undefined && !['N', 'NS'].includes(declared.type)) {
    fail(`has as: ${declared.as}, which only the types N and NS allow, not ${declared.type}`);
  }
  if (declared.encrypted && declared.roles?.length) {
    fail(`has the role ${declared.roles[0]} and cannot be encrypted; remove encrypted`);
  }
  for (const role of declared.roles ?? []) {
    if (!roles.includes(role)) {
      fail(`has the role ${role}; expected one of ${roles.join(', ')}`);
    }
    if ((role === 'version' || role === 'ttl') && (declared.type !== 'N' || declared.as !== undefined)) {
      fail(`has the role ${role}, which needs the type N without as`);
    }
    if ((role === 'created_at' || role === 'updated_at') && (!['S', 'N'].includes(declared.type) || declared.as)) {
      fail(`has the role ${role}, which needs the type S, or N without as`);
    }
  }
}

/** Returns the attribute of a key. */
function keyOf(key: KeyDefinition, attributes: Attributes, fail: Fail): AttributeDefinition {
  const declared = attributes.get(key.attribute) ?? fail(`the key ${key.attribute} is not among the attributes`);
  if (declared.type !== key.type) {
    fail(`the key ${key.attribute} has the type ${key.type}, but its attribute ${declared.type}`);
  }
  if (!['S', 'N', 'B'].includes(key.type)) {
    fail(`the key ${key.attribute} has the type ${key.type}; expected S, N or B`);
  }
  if (declared.encrypted) {
    fail(`the key ${key.attribute} cannot be encrypted, because DynamoDB compares it; remove encrypted`);
  }
  return declared;
}

/** Checks that the roles pk and sk match the table's keys, and that key attributes are not optional. */
function checkKeyRoles(definition: ModelDefinition, attributes: Attributes, fail: Fail): void {
  const { partition, sort } = definition.keys;
  if (partition.attribute === sort?.attribute) {
    fail(`${partition.attribute} is both the partition key and the sort key`);
  }
  for (const [role, key] of [
    ['pk', partition],
    ['sk', sort],
  ] as const) {
    const named = attributeWithRole(role, attributes, fail);
    if (named !== undefined && named.attribute !== key?.attribute) {
      fail(
        `the attribute ${named.attribute} has the role ${role}, which belongs to ${key?.attribute ?? 'no attribute'}`,
      );
    }
    const declared = key && attributes.get(key.attribute);
    if (declared?.optional || declared?.omit_empty) {
      fail(`the key ${declared.attribute} cannot be optional`);
    }
  }
}

/** Returns the attribute with a role, which at most one may have. */
function attributeWithRole(role: Role, attributes: Attributes, fail: Fail): AttributeDefinition | undefined {
  const [first, second] = [...attributes.values()].filter((declared) => declared.roles?.includes(role));
  if (first !== undefined && second !== undefined) {
    fail(`${first.attribute} and ${second.attribute} both have the role ${role}`);
  }
  return first;
}

function checkIndexes(indexes: readonly IndexDefinition[], attributes: Attributes, fail: Fail): void {
  const names = new Set<string>();
  for (const index of indexes) {
    if (!index?.name || names.has(index.name)) {
      fail(index?.name ? `the index ${index.name} is declared twice` : 'an index has no name');
    }
    names.add(index.name);
    for (const key of [index.partition, index.sort]) {
      if (key !== undefined) {
        keyOf(key, attributes, (problem) => fail(`the index ${index.name}: ${problem}`));
      }
    }
  }
}

/** Reports whether items may lack the attribute. */
export function isOptional(declared: AttributeDefinition): boolean {
  return declared.optional === true || declared.omit_empty === true;
}

/** Reports whether writes fill in the attribute themselves if an item lacks it. */
export function isStamp(declared: AttributeDefinition): boolean {
  return (declared.roles ?? []).some((role) => role === 'version' || role === 'created_at' || role === 'updated_at');
}
