/** How filters are added: to queries and scans, and to groups. */

import { InvalidQueryError } from './errors.js';
import {
  allOfFilters,
  anyOfFilters,
  type Filter,
  FilterBuilder,
  type FilterOperatorOf,
  type Operands,
} from './filter.js';
import type { FieldOf, ValueAt } from './infer.js';
import type { Model } from './model.js';
import { formatValue } from './value.js';

/** Filters that all hold, so far. */
type Filters = readonly Filter<never>[];

/** What filters can be added to. */
export abstract class Filterable<M extends Model> {
  /**
   * Returns it with other filters.
   * @internal
   */
  abstract refilter(change: (filters: Filters) => Filters): this;

  /**
   * Adds a filter; several filters must all hold. DynamoDB still reads, and charges for, the
   * items that a filter drops. `between` takes two values, `in` 1 to 100, `exists` and
   * `not_exists` none, the other operators one.
   */
  filter<A extends FieldOf<M>, O extends FilterOperatorOf<M, A>>(
    attribute: A,
    operator: O,
    ...values: Operands<O, ValueAt<M, A>>
  ): this;
  /** Adds a filter with groups: `(f) => f.or(f.where('year', '<', 1960), f.where('genre', '=', 'jazz'))`. */
  filter(build: (f: FilterBuilder<M>) => Filter<M>): this;
  filter(...given: readonly unknown[]): this {
    const filter = filterOf(given);
    return this.refilter((filters) => [...filters, filter]);
  }

  /** Adds an alternative to the filters before it, taken together: `a`, `b`, or `c` is `(a AND b) OR c`. */
  orFilter<A extends FieldOf<M>, O extends FilterOperatorOf<M, A>>(
    attribute: A,
    operator: O,
    ...values: Operands<O, ValueAt<M, A>>
  ): this;
  orFilter(build: (f: FilterBuilder<M>) => Filter<M>): this;
  orFilter(...given: readonly unknown[]): this {
    const filter = filterOf(given);
    return this.refilter((filters) => anyOfFilters(filters, filter));
  }

  /** Adds the filters that `add` adds to the group, in parentheses: `(g) => g.filter('year', '<', 1960).orFilter(…)`. */
  filterGroup(add: (group: FilterGroup<M>) => unknown): this {
    const group = groupOf(add);
    return this.refilter((filters) => [...filters, group]);
  }

  /** Adds an alternative to the filters before it: those that `add` adds to the group, in parentheses. */
  orFilterGroup(add: (group: FilterGroup<M>) => unknown): this {
    const group = groupOf(add);
    return this.refilter((filters) => anyOfFilters(filters, group));
  }
}

/** A group of filters while it is built. Unlike a query it is changed by its methods. */
export class FilterGroup<M extends Model> extends Filterable<M> {
  #filters: Filters = [];

  /** @internal */
  override refilter(change: (filters: Filters) => Filters): this {
    this.#filters = change(this.#filters);
    return this;
  }

  /**
   * Returns the filters of the group as one.
   * @internal
   */
  joined(): Filter<never> {
    if (this.#filters.length === 0) {
      throw new InvalidQueryError('a group of filters has no filter: add at least one');
    }
    return allOfFilters(this.#filters);
  }
}

function groupOf<M extends Model>(add: (group: FilterGroup<M>) => unknown): Filter<never> {
  if (typeof add !== 'function') {
    throw new InvalidQueryError(`a group of filters is a function that adds them (got ${formatValue(add)})`);
  }
  const group = new FilterGroup<M>();
  add(group);
  return group.joined();
}

/** Returns the filter of the arguments of `filter`: a function that builds one, or a comparison. */
function filterOf(given: readonly unknown[]): Filter<never> {
  const builder = new FilterBuilder<Model>();
  const [build] = given;
  const filter =
    typeof build === 'function'
      ? (build as (f: FilterBuilder<Model>) => Filter)(builder)
      : builder.where(...(given as [attribute: string, operator: '=', value: unknown]));
  return filter as Filter<never>;
}
