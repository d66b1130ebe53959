/**
 * Time. The wall clock is for timestamps that are stored, the monotonic clock for
 * measuring how long this process has waited. Both are injected.
 */

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
