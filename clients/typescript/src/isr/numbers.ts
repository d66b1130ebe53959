import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { floorSeconds } from '../clock.js';
import { floorDecimal } from '../decimal.js';
import { BOUNDS } from './names.js';

/** Applies {@link floorDecimal} to an attribute. NULL is 0, like a missing attribute; other types are undefined. */
export function floorOf(av: AttributeValue): bigint | undefined {
  if (av.N !== undefined) return floorDecimal(av.N);
  return av.NULL === undefined ? undefined : 0n;
}

/** Clamps n to bounds within the exact integers, and converts it to a number. */
export function clamp(n: bigint, lowest: number, highest: number): number {
  if (n <= BigInt(lowest)) return lowest;
  return n >= BigInt(highest) ? highest : Number(n);
}

/** Converts epoch milliseconds to whole seconds, rounded down and clamped to the valid range. */
export function wholeSeconds(ms: number): number {
  return Math.min(Math.max(floorSeconds(ms), 0), BOUNDS.moment);
}

/**
 * Normalizes a duration in seconds: rounded up, so that a positive window is never empty,
 * and clamped to [0, ten years].
 */
export function interval(seconds: number): number {
  return Math.min(Math.max(Math.ceil(seconds), 0), BOUNDS.interval);
}
