import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { floorSeconds } from '../clock.js';
import { BOUNDS } from './names.js';

/** Larger magnitudes saturate at this value, so that sums still fit into 64 bits in other languages. */
const saturation = 1n << 62n;

/**
 * Parses a DynamoDB number and rounds it down, saturated to ±2^62; undefined if the text is
 * not a number. DynamoDB's numbers have 38 digits and may be fractions, as those of other
 * writers' clocks are.
 */
export function floorNumber(digits: string): bigint | undefined {
  const parts = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,6}))?$/.exec(digits);
  if (!parts) return undefined;
  const [, sign, whole = '', fraction = '', exponent = '0'] = parts;
  const mantissa = whole + fraction;
  if (mantissa === '' || mantissa.length > 1000) return undefined;
  return saturate(scale(BigInt(sign === '-' ? `-${mantissa}` : mantissa), Number(exponent) - fraction.length));
}

/** Like {@link floorNumber}, but rounds up. */
export function ceilNumber(digits: string): bigint | undefined {
  const negated = floorNumber(digits.startsWith('-') ? digits.slice(1) : `-${digits.replace(/^\+/, '')}`);
  return negated === undefined ? undefined : -negated;
}

/** Returns n·10^power, rounded down. The power is capped, since the result saturates anyway. */
function scale(n: bigint, power: number): bigint {
  if (power >= 0) return n * 10n ** BigInt(Math.min(power, 1100));
  const divisor = 10n ** BigInt(Math.min(-power, 1100));
  const quotient = n / divisor; // towards zero
  return n < 0n && quotient * divisor !== n ? quotient - 1n : quotient;
}

function saturate(n: bigint): bigint {
  if (n > saturation) return saturation;
  return n < -saturation ? -saturation : n;
}

/** Applies {@link floorNumber} to an attribute. NULL is 0, like a missing attribute; other types are undefined. */
export function floorOf(av: AttributeValue): bigint | undefined {
  if (av.N !== undefined) return floorNumber(av.N);
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
