import type { Clock } from '../clock.js';
import type { Warn } from '../isr/backend.js';

/** The minimum interval between prints of the same message, in milliseconds. */
const quietMs = 60_000;

/** Prints each message at most once per minute, so that an outage does not log a line per visitor. */
export function occasionally(clock: Pick<Clock, 'elapsed'>, beginning: string): Warn {
  const printed = new Map<string, number>();
  return (message, details) => {
    const now = clock.elapsed();
    if (now - (printed.get(message) ?? Number.NEGATIVE_INFINITY) < quietMs) return;
    printed.set(message, now);
    console.warn(`${beginning}: ${message}`, details);
  };
}
