import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { floorSeconds } from '../clock.js';
import { BOUNDS } from './names.js';

/**
 * What numbers beyond it are read as, in both directions: they are as good as
 * endless, and sums with them still fit into 64 bits elsewhere.
 */
const saturation = 1n << 62n;

/**
 * The integral part, towards minus infinity, of a number as DynamoDB writes it,
 * saturated to ±2^62; undefined if the text is no number. DynamoDB's numbers have
 * 38 digits and may be fractions, and other writers' clocks give fractions.
 */
export function floorNumber(digits: string): bigint | undefined {
  const parts = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,6}))?$/.exec(digits);
  if (!parts) return undefined;
  const [, sign, whole = '', fraction = '', exponent = '0'] = parts;
  const mantissa = whole + fraction;
  if (mantissa === '' || mantissa.length > 1000) return undefined;
  return saturate(scale(BigInt(sign === '-' ? `-${mantissa}` : mantissa), Number(exponent) - fraction.length));
}

/** {@link floorNumber} towards plus infinity. */
export function ceilNumber(digits: string): bigint | undefined {
  const negated = floorNumber(digits.startsWith('-') ? digits.slice(1) : `-${digits.replace(/^\+/, '')}`);
  return negated === undefined ? undefined : -negated;
}

/** n·10^power, rounded down. The power is cut to what decides anything. */
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

/** {@link floorNumber} of an attribute. NULL is 0, as no attribute is; what is no number is undefined. */
export function floorOf(av: AttributeValue): bigint | undefined {
  if (av.N !== undefined) return floorNumber(av.N);
  return av.NULL === undefined ? undefined : 0n;
}

/** n as a number within bounds that a number says exactly. */
export function clamp(n: bigint, lowest: number, highest: number): number {
  if (n <= BigInt(lowest)) return lowest;
  return n >= BigInt(highest) ? highest : Number(n);
}

/** A time in epoch milliseconds as a row can say it: in whole seconds, floored and clamped. */
export function wholeSeconds(ms: number): number {
  return Math.min(Math.max(floorSeconds(ms), 0), BOUNDS.moment);
}

/**
 * A duration in seconds, rounded up so that a window that was asked for is never
 * empty, and clamped to [0, ten years].
 */
export function interval(seconds: number): number {
  return Math.min(Math.max(Math.ceil(seconds), 0), BOUNDS.interval);
}
