/** Checks of option objects. An option that is silently ignored can cost its caller a condition, a fence or a lease. */

import { InvalidInputError } from './errors.js';
import { formatValue } from './value.js';

/** The names of the members of `T`, each of them once. The compiler rejects a list that is not complete. */
export type Members<T> = Readonly<Record<keyof T, true>>;

/** Options of TableTheory that have another name here, or none, with what to do instead. */
export type Hints = Readonly<Record<string, string>>;

/**
 * Rejects members that `known` does not list. Undefined members and undefined options are
 * absent. `what` names the call in the message.
 *
 * @throws InvalidInputError
 */
export function checkOptions(what: string, options: unknown, known: Readonly<Record<string, true>>, hints: Hints = {}) {
  if (options === undefined) return;
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidInputError(`the options of ${what} must be an object (got ${formatValue(options)})`);
  }
  const unknown = unknownOption(options, known, hints);
  if (unknown !== undefined) throw new InvalidInputError(`${what} has no option ${unknown}`);
}

/** Describes the first member that `known` does not list; undefined if there is none. */
export function unknownOption(
  options: object,
  known: Readonly<Record<string, true>>,
  hints: Hints = {},
): string | undefined {
  const found = Object.entries(options).find(([name, value]) => value !== undefined && !Object.hasOwn(known, name));
  if (found === undefined) return undefined;
  const [name] = found;
  return `${name}: ${Object.hasOwn(hints, name) ? hints[name] : `expected ${Object.keys(known).join(', ')}`}`;
}

/** The members of every option object that can cancel its call. */
export const cancellable: Members<{ signal: unknown }> = { signal: true };
