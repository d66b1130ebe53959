/**
 * DynamoDB's numbers: decimals of up to 38 digits, between 1E-130 and 9.99…E+125 in
 * magnitude, written without an exponent. They are compared and checked as text, so that
 * nothing is rounded.
 */

/** The maximum number of significant digits. */
const maxDigits = 38;

/** The exponents of the first digit of the smallest and of the largest number. */
const minExponent = -130;
const maxExponent = 125;

/** The maximum length of a number's text, checked before parsing. No number in canonical form is longer. */
const maxText = 512;

/** A description of valid numbers for error messages. */
export const expectedDecimal = 'a number of at most 38 digits, between 1E-130 and 9.99E+125 in magnitude';

/** A decimal of any magnitude. Zero has no digits and no sign. */
interface Decimal {
  sign: '' | '-';
  /** The significant digits, without zeros at either end. */
  digits: string;
  /** The exponent of the first digit: its weight is 10^`first`. */
  first: number;
}

/** Parses a decimal; undefined if the text is not one. */
function parseDecimal(text: string): Decimal | undefined {
  if (text.length > maxText) {
    return undefined;
  }
  const parts = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,6}))?$/.exec(text);
  if (parts === null) {
    return undefined;
  }
  const [, sign, whole = '', fraction = '', exponent = '0'] = parts;
  if (whole + fraction === '') {
    return undefined;
  }
  const leading = (whole + fraction).replace(/^0+/, '');
  const digits = leading.replace(/0+$/, '');
  const first = Number(exponent) + leading.length - fraction.length - 1;
  return { sign: sign === '-' && digits !== '' ? '-' : '', digits, first };
}

/**
 * Returns the canonical form of a decimal, without exponent and superfluous zeros: `1.50`
 * is `1.5`, `1e2` is `100`, `+1` is `1`, `-0` is `0`. It returns undefined if the text is
 * not a number, or DynamoDB cannot store it.
 */
export function canonicalDecimal(text: string): string | undefined {
  const parsed = parseDecimal(text);
  if (parsed === undefined) {
    return undefined;
  }
  const { sign, digits, first } = parsed;
  if (digits === '') {
    return '0';
  }
  if (digits.length > maxDigits || first < minExponent || first > maxExponent) {
    return undefined;
  }
  return sign + withoutExponent(digits, first);
}

/** Writes digits without an exponent. The first digit has the weight 10^`first`. */
function withoutExponent(digits: string, first: number): string {
  if (first < 0) {
    return `0.${'0'.repeat(-first - 1)}${digits}`;
  }
  const whole = digits.slice(0, first + 1).padEnd(first + 1, '0');
  const fraction = digits.slice(first + 1);
  return fraction === '' ? whole : `${whole}.${fraction}`;
}

/**
 * Parses a stored number, undefined if no JavaScript number equals it exactly: integers up
 * to 2^53 - 1 in magnitude, and fractions that round-trip, do.
 */
export function exactNumber(text: string): number | undefined {
  const value = Number(text);
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return undefined;
  }
  const written = canonicalDecimal(text);
  return written !== undefined && canonicalDecimal(String(value)) === written ? value : undefined;
}

/** Parses a stored integer of any size; undefined if the text is not an integer. */
export function exactInteger(text: string): bigint | undefined {
  const written = canonicalDecimal(text);
  return written === undefined || written.includes('.') ? undefined : BigInt(written);
}

/** Larger magnitudes saturate at this value, so that sums still fit into 64 bits in other languages. */
const saturation = 1n << 62n;

/** Numbers whose first digit has this exponent, 10^19 and more, saturate. */
const saturationExponent = 19;

/**
 * Parses a decimal and rounds it down, saturated to ±2^62; undefined if the text is not a
 * number. Other writers store readings of their clocks with any magnitude, and as fractions.
 */
export function floorDecimal(text: string): bigint | undefined {
  return rounded(text, '-');
}

/** Like {@link floorDecimal}, but rounds up. */
export function ceilDecimal(text: string): bigint | undefined {
  return rounded(text, '');
}

/** Rounds fractions away from zero if they have this sign, otherwise towards zero. */
function rounded(text: string, away: Decimal['sign']): bigint | undefined {
  const parsed = parseDecimal(text);
  if (parsed === undefined) {
    return undefined;
  }
  const { sign, digits, first } = parsed;
  const integers = Math.max(Math.min(first, saturationExponent) + 1, 0);
  const whole = BigInt(digits.slice(0, integers).padEnd(integers, '0'));
  const magnitude = sign === away && digits.length > integers ? whole + 1n : whole;
  const bounded = magnitude > saturation ? saturation : magnitude;
  return sign === '-' ? -bounded : bounded;
}
