/** Item types inferred from models. They exist only at compile time. */

import type { AttributeDefinition, Model, ModelDefinition } from './model.js';
import type { DocumentList, DocumentMap } from './value.js';

/** An item of a model whose definition is not known at compile time. */
export type LooseItem = Record<string, unknown>;

/** An item as reads return it, with required and optional members. */
export type ItemOf<M extends Model> = Known<M, Shape<DefinitionOf<M>, OptionalIn<AttributeOf<M>>>>;

/** An item as writes take it: {@link ItemOf}, but without the version if the item is new. */
export type InputOf<M extends Model> = Known<
  M,
  Shape<DefinitionOf<M>, OptionalIn<AttributeOf<M>> | VersionIn<AttributeOf<M>>>
>;

/** The key of an item of a model. */
export type KeyOf<M extends Model> = Known<M, Simplify<{ [K in KeyIn<DefinitionOf<M>>]: MemberOf<AttributeOf<M>, K> }>>;

/** The names of a model's non-key attributes. */
export type FieldOf<M extends Model> =
  IsLoose<M> extends true ? string : Exclude<AttributeOf<M>['attribute'], KeyIn<DefinitionOf<M>>>;

type DefinitionOf<M extends Model> = M['definition'];
type AttributeOf<M extends Model> = DefinitionOf<M>['attributes'][number];

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

type VersionIn<A extends AttributeDefinition> = A extends { roles: readonly (infer R)[] }
  ? 'version' extends R
    ? A['attribute']
    : never
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
