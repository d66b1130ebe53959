/** Item types inferred from models. They exist only at compile time. */

import type { AttributeDefinition, KeyDefinition, Model, ModelDefinition } from './model.js';
import type { DocumentList, DocumentMap } from './value.js';

/** An item of a model whose definition is not known at compile time. */
export type LooseItem = Record<string, unknown>;

/** An item as reads return it, with required and optional members. */
export type ItemOf<M extends Model> = Known<M, Shape<DefinitionOf<M>, OptionalIn<AttributeOf<M>>>>;

/** An item as writes take it: {@link ItemOf}, but without what the writes set: the version of a new item, and the times. */
export type InputOf<M extends Model> = Known<
  M,
  Shape<DefinitionOf<M>, OptionalIn<AttributeOf<M>> | StampIn<AttributeOf<M>>>
>;

/** The key of an item of a model. */
export type KeyOf<M extends Model> = Known<M, Simplify<{ [K in KeyIn<DefinitionOf<M>>]: MemberOf<AttributeOf<M>, K> }>>;

/** The names of a model's non-key attributes. */
export type FieldOf<M extends Model> =
  IsLoose<M> extends true ? string : Exclude<AttributeOf<M>['attribute'], KeyIn<DefinitionOf<M>>>;

/** The names of a model's non-key attributes that are not encrypted. */
export type PlainFieldOf<M extends Model> =
  IsLoose<M> extends true ? string : Exclude<FieldOf<M>, EncryptedIn<AttributeOf<M>>>;

/** The names of all attributes of a model. */
export type AttributeNameOf<M extends Model> = IsLoose<M> extends true ? string : AttributeOf<M>['attribute'];

/** The type of the values of an attribute. */
export type ValueAt<M extends Model, A> = IsLoose<M> extends true ? unknown : MemberOf<AttributeOf<M>, A>;

/** The names of a model's indexes. */
export type IndexNameOf<M extends Model> =
  IsLoose<M> extends true
    ? string
    : DefinitionOf<M> extends { indexes: readonly (infer I extends { name: string })[] }
      ? I['name']
      : never;

/** The type of the partition key's values, of the table (`undefined`) or an index. */
export type PartitionValueOf<M extends Model, I> =
  IsLoose<M> extends true ? unknown : ValueAt<M, KeysAt<M, I>['partition']['attribute']>;

/** The type of the sort key's values, of the table (`undefined`) or an index; never if it has no sort key. */
export type SortValueOf<M extends Model, I> =
  IsLoose<M> extends true ? unknown : KeysAt<M, I> extends { sort: { attribute: infer S } } ? ValueAt<M, S> : never;

/** An item of which some attributes were read. */
export type PartOf<M extends Model, A extends string> =
  IsLoose<M> extends true ? LooseItem : Simplify<Pick<ItemOf<M>, A & keyof ItemOf<M>>>;

type KeysAt<M extends Model, I> = I extends undefined
  ? DefinitionOf<M>['keys']
  : DefinitionOf<M> extends { indexes: readonly (infer D)[] }
    ? Extract<D, { name: I }> extends infer Keys extends { partition: KeyDefinition }
      ? Keys
      : never
    : never;

type DefinitionOf<M extends Model> = M['definition'];

/** The definitions of a model's attributes, as a union: `ValueOf<AttributeOf<M>>` is the type of all its values. */
export type AttributeOf<M extends Model> = DefinitionOf<M>['attributes'][number];

type IsLoose<M extends Model> = ModelDefinition extends DefinitionOf<M> ? true : false;
type Known<M extends Model, T> = IsLoose<M> extends true ? LooseItem : T;

type Simplify<T> = { [K in keyof T]: T[K] } & {};

type Shape<D extends ModelDefinition, Optional> = Simplify<
  { [A in D['attributes'][number] as A['attribute'] extends Optional ? never : A['attribute']]: ValueOf<A> } & {
    [A in D['attributes'][number] as A['attribute'] extends Optional ? A['attribute'] : never]?: ValueOf<A> | undefined;
  }
>;

type OptionalIn<A extends AttributeDefinition> = A extends { optional: true } | { omit_empty: true }
  ? A['attribute']
  : never;

type EncryptedIn<A extends AttributeDefinition> = A extends { encrypted: true } ? A['attribute'] : never;

/** The attributes that writes set themselves. The conditional type distributes over the attributes. */
type StampIn<A extends AttributeDefinition> = A extends { roles: readonly (infer R)[] }
  ? Extract<R, 'version' | 'created_at' | 'updated_at'> extends never
    ? never
    : A['attribute']
  : never;

type KeyIn<D extends ModelDefinition> =
  | D['keys']['partition']['attribute']
  | (D['keys'] extends { sort: { attribute: infer S extends string } } ? S : never);

type MemberOf<A extends AttributeDefinition, K> = A extends { attribute: K } ? ValueOf<A> : never;

/** The JavaScript type of an attribute's values. */
export type ValueOf<A extends AttributeDefinition> = {
  S: string;
  N: NumberOf<A>;
  B: Uint8Array;
  BOOL: boolean;
  NULL: null;
  L: DocumentList;
  M: DocumentMap;
  SS: Set<string>;
  NS: Set<NumberOf<A>>;
  BS: Set<Uint8Array>;
}[A['type']];

type NumberOf<A extends AttributeDefinition> = A extends { as: 'bigint' }
  ? bigint
  : A extends { as: 'string' }
    ? string
    : number;
