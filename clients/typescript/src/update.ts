/** Updates: changes of single attributes of one item. */

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { InvalidInputError, InvalidQueryError } from './errors.js';
import type { Expressions } from './expression.js';
import type { FieldOf, PlainFieldOf, ValueAt } from './infer.js';
import type { Item } from './item.js';
import { attributeOf, encodeMember } from './marshal.js';
import { type AttributeDefinition, isOptional, isStamp, type Model } from './model.js';
import type { DocumentValue } from './value.js';

/** The attributes that `add` takes: numbers and sets. */
export type Addable<V> = unknown extends V ? V : V extends number | bigint | ReadonlySet<unknown> ? V : never;

/** Reads the changes of a builder, which callers cannot see. */
let changesOf: (builder: UpdateBuilder<Model>) => ReadonlyMap<string, Change>;

/** The change of one attribute, as stored. */
type Change =
  | { kind: 'set' | 'add' | 'if_not_exists' | 'append' | 'delete'; value: AttributeValue }
  | { kind: 'remove' };

/**
 * The changes of one update. Each attribute can be changed once; keys and the version
 * cannot be changed. Each method returns the builder.
 */
export class UpdateBuilder<M extends Model> {
  readonly #model: Model;
  readonly #changes = new Map<string, Change>();

  constructor(model: M) {
    this.#model = model;
  }

  /** Stores a value. */
  set<A extends FieldOf<M>>(attribute: A, value: ValueAt<M, A>): this {
    const stored = this.#encode(attribute, value);
    return this.#change(attribute, stored === undefined ? { kind: 'remove' } : { kind: 'set', value: stored });
  }

  /** Removes an optional attribute. */
  remove(attribute: FieldOf<M>): this {
    const declared = this.#changeable(attribute);
    if (!isOptional(declared) && !isStamp(declared)) {
      throw new InvalidInputError(`${this.#model.name}.${attribute} is required and cannot be removed`);
    }
    return this.#change(attribute, { kind: 'remove' });
  }

  /**
   * Adds a number to a number, where a missing attribute counts as 0, or members to a set.
   * Adding to a number is not idempotent: without a version the update is sent once.
   */
  add<A extends PlainFieldOf<M>>(attribute: A, value: Addable<ValueAt<M, A>>): this {
    return this.#of(attribute, 'add', ['N', 'SS', 'NS', 'BS'], value);
  }

  /** Stores a value if the attribute is missing. */
  ifNotExists<A extends PlainFieldOf<M>>(attribute: A, value: ValueAt<M, A>): this {
    this.#computable(attribute, 'ifNotExists');
    const stored = this.#encode(attribute, value);
    if (stored === undefined) {
      throw new InvalidInputError(`${this.#model.name}.${attribute}: ifNotExists takes a value that is stored`);
    }
    return this.#change(attribute, { kind: 'if_not_exists', value: stored });
  }

  /**
   * Appends elements to a list, which is created if it is missing. It is not idempotent:
   * without a version the update is sent once.
   */
  append(attribute: PlainFieldOf<M>, elements: readonly DocumentValue[]): this {
    return this.#of(attribute, 'append', ['L'], elements);
  }

  /** Removes members from a set. */
  delete<A extends PlainFieldOf<M>>(
    attribute: A,
    members: Extract<Addable<ValueAt<M, A>>, ReadonlySet<unknown>>,
  ): this {
    return this.#of(attribute, 'delete', ['SS', 'NS', 'BS'], members);
  }

  #of(attribute: string, kind: 'add' | 'append' | 'delete', types: readonly string[], value: unknown): this {
    const declared = this.#computable(attribute, kind);
    if (!types.includes(declared.type)) {
      throw new InvalidInputError(
        `${this.#model.name}.${attribute}: ${kind} changes attributes of type ${types.join(', ')}, not ${declared.type}`,
      );
    }
    const stored = encodeMember(this.#model, { ...declared, omit_empty: false }, value) as AttributeValue;
    return this.#change(attribute, { kind, value: stored });
  }

  #encode(attribute: string, value: unknown): AttributeValue | undefined {
    const declared = this.#changeable(attribute);
    if (value === undefined) {
      throw new InvalidInputError(
        `${this.#model.name}.${attribute}: the value is undefined; remove removes attributes`,
      );
    }
    return encodeMember(this.#model, declared, value);
  }

  #change(attribute: string, change: Change): this {
    if (this.#changes.has(attribute)) {
      throw new InvalidQueryError(`update ${this.#model.name}: the attribute ${attribute} is changed twice`);
    }
    this.#changes.set(attribute, change);
    return this;
  }

  /** Returns an attribute whose stored value DynamoDB can read. */
  #computable(attribute: string, kind: string): AttributeDefinition {
    const declared = this.#changeable(attribute);
    if (declared.encrypted) {
      throw new InvalidQueryError(
        `update ${this.#model.name}: ${kind} reads ${attribute}, which is encrypted for DynamoDB; use set`,
      );
    }
    return declared;
  }

  #changeable(attribute: string): AttributeDefinition {
    const declared = attributeOf(this.#model, attribute);
    if (this.#model.keys.includes(declared)) {
      throw new InvalidQueryError(
        `update ${this.#model.name}: ${attribute} is a key and cannot be changed; create another item and delete this one`,
      );
    }
    if (declared === this.#model.version) {
      throw new InvalidQueryError(
        `update ${this.#model.name}: ${attribute} is the version, which updates increment themselves; leave it out`,
      );
    }
    return declared;
  }

  static {
    changesOf = (builder) => builder.#changes;
  }
}

/** The changes of an update. */
export class Changes {
  readonly #changes: Map<string, Change>;

  constructor(builder: UpdateBuilder<Model>) {
    this.#changes = new Map(changesOf(builder));
  }

  get isEmpty(): boolean {
    return this.#changes.size === 0;
  }

  /** Reports whether the update changes the attribute. */
  has(attribute: string): boolean {
    return this.#changes.has(attribute);
  }

  /** Sets an attribute to a stored value. */
  set(attribute: string, value: AttributeValue): void {
    this.#changes.set(attribute, { kind: 'set', value });
  }

  /** Reports whether a second application of the update would change the item again. */
  get isIdempotent(): boolean {
    return ![...this.#changes.values()].some(
      (change) => change.kind === 'append' || (change.kind === 'add' && change.value.N !== undefined),
    );
  }

  /** Returns what the update makes of the item, if that depends on nothing that is stored; otherwise undefined. */
  get plain(): { set: Item; remove: string[] } | undefined {
    const all = [...this.#changes];
    if (all.some(([, { kind }]) => kind !== 'set' && kind !== 'remove')) {
      return undefined;
    }
    const remove = all.flatMap(([name, { kind }]) => (kind === 'remove' ? [name] : []));
    return { set: this.sets, remove };
  }

  /** The attributes that the update sets, with their values. */
  get sets(): Item {
    const sets = [...this.#changes].flatMap(([name, change]) =>
      change.kind === 'set' ? [[name, change.value] as const] : [],
    );
    return Object.fromEntries(sets);
  }

  /** Returns the update expression. `sets` are further assignments. */
  expression(expressions: Expressions, sets: readonly string[]): string {
    const clauses: Record<'SET' | 'REMOVE' | 'ADD' | 'DELETE', string[]> = {
      SET: [...sets],
      REMOVE: [],
      ADD: [],
      DELETE: [],
    };
    for (const [attribute, change] of this.#changes) {
      const name = expressions.name(attribute);
      if (change.kind === 'remove') {
        clauses.REMOVE.push(name);
        continue;
      }
      const value = expressions.value(change.value);
      switch (change.kind) {
        case 'set':
          clauses.SET.push(`${name} = ${value}`);
          break;
        case 'if_not_exists':
          clauses.SET.push(`${name} = if_not_exists(${name}, ${value})`);
          break;
        case 'append':
          clauses.SET.push(`${name} = list_append(if_not_exists(${name}, ${expressions.value({ L: [] })}), ${value})`);
          break;
        case 'add':
          clauses.ADD.push(`${name} ${value}`);
          break;
        case 'delete':
          clauses.DELETE.push(`${name} ${value}`);
      }
    }
    return Object.entries(clauses)
      .filter(([, parts]) => parts.length > 0)
      .map(([word, parts]) => `${word} ${parts.join(', ')}`)
      .join(' ');
  }
}

/** Returns the changes that set some attributes to the values in `item`, and remove those that are undefined there. */
export function fieldChanges(model: Model, item: Record<string, unknown>, fields: readonly string[]): Changes {
  const builder = new UpdateBuilder(model);
  for (const field of fields) {
    if (item[field] === undefined) {
      builder.remove(field);
    } else {
      builder.set(field, item[field]);
    }
  }
  return new Changes(builder);
}

/** Returns the changes that a function makes. */
export function builtChanges(model: Model, build: (update: UpdateBuilder<Model>) => unknown): Changes {
  const builder = new UpdateBuilder(model);
  build(builder);
  return new Changes(builder);
}
