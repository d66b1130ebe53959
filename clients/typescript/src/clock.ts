/**
 * Time. The wall clock is for timestamps that are stored, the monotonic clock for
 * measuring how long this process has waited. Both are injected.
 */

import { InvalidInputError } from './errors.js';
import { formatValue } from './value.js';

/** A source of time. */
export interface Clock {
  /** The wall clock, in epoch milliseconds. */
  now(): number;
  /** The monotonic clock, in milliseconds since an arbitrary moment. */
  elapsed(): number;
  /**
   * Resolves with true after the given time, or with false as soon as the signal is
   * aborted. It never rejects.
   */
  sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean>;
}

/** The clock of this machine. `now` replaces `Date.now`. */
export function systemClock(now: () => number = Date.now): Clock {
  return { now, elapsed: () => performance.now(), sleep };
}

/**
 * Returns `clock` of the options, else this machine's clock with `now` as its wall clock. Each
 * reading of the wall clock is checked. If the options have one, it is also checked here.
 *
 * @throws InvalidInputError, here and from `now`, unless the wall clock is in epoch milliseconds.
 */
export function clockOf(options: { clock?: Clock | undefined; now?: (() => number) | undefined }): Clock {
  const { clock, now } = options;
  if (now !== undefined && typeof now !== 'function') {
    throw new InvalidInputError(`now must be a function (got ${formatValue(now)})`);
  }
  const of = clock ?? systemClock(now);
  const checked = {
    now: () => checkWallClock(of.now()),
    elapsed: () => of.elapsed(),
    sleep: (milliseconds: number, signal: AbortSignal | undefined) => of.sleep(milliseconds, signal),
  };
  if (clock !== undefined || now !== undefined) checked.now();
  return checked;
}

/** 3 March 1973 in milliseconds. No clock is before it, and one in seconds stays below it until the year 5138. */
export const earliest = 100_000_000_000;
/** The end of the year 9999 in milliseconds. A clock in microseconds is beyond it since January 1978. */
const latest = 253_402_300_799_999;

/**
 * Returns the reading of a wall clock. Two processes whose clocks count in different units
 * would see each other's leases as expired, or as held for ever.
 */
function checkWallClock(ms: number): number {
  if (typeof ms === 'number' && ms >= earliest && ms <= latest) return ms;
  const unit = ms > latest ? 'finer than milliseconds: divide it' : 'in seconds: multiply it by 1,000';
  const found = typeof ms === 'number' && ms >= 1 ? `${ms}, which looks like a time ${unit}` : formatValue(ms);
  throw new InvalidInputError(`now must return epoch milliseconds, as Date.now does (got ${found})`);
}

function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const end = (passed: boolean) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
      resolve(passed);
    };
    const stop = () => end(false);
    const timer = setTimeout(() => end(true), milliseconds);
    if (signal?.aborted) {
      stop();
    } else {
      signal?.addEventListener('abort', stop);
    }
  });
}

/** Converts milliseconds to whole seconds, rounded down. */
export function floorSeconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}

/** Converts milliseconds to whole seconds, rounded up. */
export function ceilSeconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000);
}
