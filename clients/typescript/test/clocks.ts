/** Clocks for tests that wait for a heartbeat or for the end of retries, on machines of any speed. */

import { type Clock, systemClock } from '../src/clock.js';

/** The clock of this machine, except that sleeping takes a hundredth of its time: heartbeats come early in a long lease. */
export function earlyClock(): Clock {
  const real = systemClock();
  return { ...real, sleep: (milliseconds, signal) => real.sleep(milliseconds / 100, signal) };
}

/** The clock of this machine, except that sleeping takes no time, but counts: retries soon reach their deadline, calls do not. */
export function skippingClock(): Clock {
  const real = systemClock();
  let skipped = 0;
  const sleep = async (milliseconds: number, signal: AbortSignal | undefined) => {
    skipped += milliseconds;
    return !signal?.aborted;
  };
  return { now: real.now, elapsed: () => real.elapsed() + skipped, sleep };
}
