/**
 * Time as this package has it: the wall clock becomes data, the monotonic clock
 * measures how long this process has waited. Both are injected.
 */

/** Where time comes from. */
export interface Clock {
  /** The wall clock, in epoch milliseconds. */
  now(): number;
  /** Milliseconds since some moment, on a clock that nobody sets. */
  elapsed(): number;
  /**
   * Waits so many milliseconds. It resolves with true when they have passed, and
   * with false as soon as the signal is aborted; it never rejects.
   */
  sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean>;
}

/** The clock of this machine; `now`, if it is given, takes the place of `Date.now`. */
export function systemClock(now: () => number = Date.now): Clock {
  return { now, elapsed: () => performance.now(), sleep };
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

/** The second that a time in milliseconds lies in. */
export function floorSeconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}

/** The first whole second that is not before a time in milliseconds. */
export function ceilSeconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000);
}
