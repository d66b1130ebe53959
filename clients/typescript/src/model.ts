/**
 * Models: what the items of a table are, said once. A model is checked when it is
 * defined; the type of its items is inferred, see `ItemOf`.
 */

import { InvalidModelError } from './errors.js';
import type { AttributeType, NumberForm } from './value.js';

/**
 * What an attribute is for:
 *
 * - `pk`, `sk`: the table's keys, as `keys` names them.
 * - `version`: N; counts the writes of an item. A write demands the version that
 *   was read and stores the next one; who is late gets a `VersionConflictError`.
 * - `ttl`: N; when DynamoDB may delete the item, in epoch seconds. Garbage
 *   collection, never a bound of correctness.
 */
export type Role = 'pk' | 'sk' | 'version' | 'ttl';

/** A key, by the name of its attribute. */
export interface KeyDefinition {
  readonly attribute: string;
  readonly type: 'S' | 'N' | 'B';
}

/** An attribute. It is required, unless it is optional. */
export interface AttributeDefinition {
  readonly attribute: string;
  readonly type: AttributeType;
  /** Of N and NS: what its numbers are in JavaScript, if not `number`. */
  readonly as?: NumberForm;
  readonly roles?: readonly Role[];
  readonly required?: boolean;
  /** Items need not have it. */
  readonly optional?: boolean;
  /** It is left out of items, and so optional, while it is false, 0, '', or has no bytes or members. */
  readonly omit_empty?: boolean;
}

/** A secondary index. */
export interface IndexDefinition {
  readonly name: string;
  readonly type: 'GSI' | 'LSI';
  readonly partition: KeyDefinition;
  readonly sort?: KeyDefinition;
}

/** What `defineModel` takes. */
export interface ModelDefinition {
  /** By which the model is named in calls; for people as well. */
  readonly name: string;
  readonly table: { readonly name: string };
  readonly keys: { readonly partition: KeyDefinition; readonly sort?: KeyDefinition };
  readonly attributes: readonly AttributeDefinition[];
  readonly indexes?: readonly IndexDefinition[];
}

/** A model that was checked. It is never changed, and may be shared. */
export interface Model<D extends ModelDefinition = ModelDefinition> {
  readonly name: D['name'];
  readonly tableName: string;
  readonly definition: D;
  /** By their names. */
  readonly attributes: ReadonlyMap<string, AttributeDefinition>;
  /** The attributes of the table's keys, one or two. */
  readonly keys: readonly AttributeDefinition[];
  /** The attribute that has the role `version`. */
  readonly version: AttributeDefinition | undefined;
}

/**
 * Defines a model.
 *
 * @throws InvalidModelError, which names the model and the attribute.
 */
export function defineModel<const D extends ModelDefinition>(definition: D): Model<D> {
  const fail = (problem: string): never => {
    throw new InvalidModelError(`the model ${definition?.name || 'without a name'}: ${problem}`);
  };
  if (!definition?.name) {
    fail('it has no name; give one by which calls name it');
  }
  if (!definition.table?.name) {
    fail('table.name is empty or missing; is the environment variable set that it is taken from?');
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
    version: theOne('version', attributes, fail),
  });
}

type Attributes = ReadonlyMap<string, AttributeDefinition>;
type Fail = (problem: string) => never;

const types: readonly string[] = ['S', 'N', 'B', 'BOOL', 'NULL', 'M', 'L', 'SS', 'NS', 'BS'];
const roles: readonly string[] = ['pk', 'sk', 'version', 'ttl'];

function attributesOf(definition: ModelDefinition, fail: Fail): Attributes {
  const attributes = new Map<string, AttributeDefinition>();
  for (const declared of definition.attributes ?? []) {
    if (!declared?.attribute) {
      fail(`attribute ${attributes.size} has no name in its member attribute`);
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
    fail(`has as: ${declared.as}, which is for the types N and NS, not ${declared.type}`);
  }
  for (const role of declared.roles ?? []) {
    if (!roles.includes(role)) {
      fail(`has the role ${role}; expected one of ${roles.join(', ')}`);
    }
    if ((role === 'version' || role === 'ttl') && (declared.type !== 'N' || declared.as !== undefined)) {
      fail(`has the role ${role}, which is for the type N, as a number`);
    }
  }
}

/** The attribute of a key. */
function keyOf(key: KeyDefinition, attributes: Attributes, fail: Fail): AttributeDefinition {
  const declared = attributes.get(key.attribute) ?? fail(`the key ${key.attribute} is not among the attributes`);
  if (declared.type !== key.type) {
    fail(`the key ${key.attribute} is ${key.type}, and its attribute is ${declared.type}`);
  }
  if (!['S', 'N', 'B'].includes(key.type)) {
    fail(`the key ${key.attribute} is ${key.type}; keys are S, N or B`);
  }
  return declared;
}

/** Demands that the roles pk and sk are those of the table's keys, each of which is always there. */
function checkKeyRoles(definition: ModelDefinition, attributes: Attributes, fail: Fail): void {
  const { partition, sort } = definition.keys;
  if (partition.attribute === sort?.attribute) {
    fail(`${partition.attribute} is both of its keys`);
  }
  for (const [role, key] of [
    ['pk', partition],
    ['sk', sort],
  ] as const) {
    const named = theOne(role, attributes, fail);
    if (named !== undefined && named.attribute !== key?.attribute) {
      fail(
        `the attribute ${named.attribute} has the role ${role}, which is that of ${key?.attribute ?? 'no attribute'}`,
      );
    }
    const declared = key && attributes.get(key.attribute);
    if (declared?.optional || declared?.omit_empty) {
      fail(`the key ${declared.attribute} cannot be optional`);
    }
  }
  theOne('ttl', attributes, fail);
}

/** The only attribute that has a role, if one has it. */
function theOne(role: Role, attributes: Attributes, fail: Fail): AttributeDefinition | undefined {
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

/** Says that items need not have the attribute. */
export function isOptional(declared: AttributeDefinition): boolean {
  return declared.optional === true || declared.omit_empty === true;
}
