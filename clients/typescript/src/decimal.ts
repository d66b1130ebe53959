/**
 * Numbers as DynamoDB has them: decimals of up to 38 digits, between 1E-130 and
 * 9.99…E+125, written out in full. They are compared and checked as text, so that
 * nothing is rounded on the way.
 */

/** How many digits a number has at most, without the zeros around them. */
const maxDigits = 38;

/** The exponents of the first digit of the smallest and of the largest number. */
const minExponent = -130;
const maxExponent = 125;

/** Bounds the text of a number before it is looked at: longer than any that is written out. */
const maxText = 512;

/** What a number has to be, for error messages. */
export const expectedDecimal = 'a number of at most 38 digits, between 1E-130 and 9.99E+125 in magnitude';

/**
 * Writes a decimal in full and without superfluous zeros: `1.50` is `1.5`, `1e2` is
 * `100`, `-0` is `0`. It is undefined if the text is no number, or one that
 * DynamoDB cannot hold.
 */
export function canonicalDecimal(text: string): string | undefined {
  if (text.length > maxText) {
    return undefined;
  }
  const parts = /^(-?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,4}))?$/.exec(text);
  if (parts === null) {
    return undefined;
  }
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = parts;
  if (whole + fraction === '') {
    return undefined;
  }
  const leading = (whole + fraction).replace(/^0+/, '');
  if (leading === '') {
    return '0';
  }
  const first = Number(exponent) + leading.length - fraction.length - 1;
  const digits = leading.replace(/0+$/, '');
  if (digits.length > maxDigits || first < minExponent || first > maxExponent) {
    return undefined;
  }
  return sign + writtenOut(digits, first);
}

/** Writes digits in full, the first of which counts 10 to the power of `first`. */
function writtenOut(digits: string, first: number): string {
  if (first < 0) {
    return `0.${'0'.repeat(-first - 1)}${digits}`;
  }
  const whole = digits.slice(0, first + 1).padEnd(first + 1, '0');
  const fraction = digits.slice(first + 1);
  return fraction === '' ? whole : `${whole}.${fraction}`;
}

/**
 * The number that a stored text is, if a JavaScript number says the same: integers
 * up to 2^53 - 1 in magnitude, and fractions that come back as they were written.
 */
export function exactNumber(text: string): number | undefined {
  const value = Number(text);
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return undefined;
  }
  const written = canonicalDecimal(text);
  return written !== undefined && canonicalDecimal(String(value)) === written ? value : undefined;
}

/** The integer that a stored text is, of whatever size; undefined if it is none. */
export function exactInteger(text: string): bigint | undefined {
  const written = canonicalDecimal(text);
  return written === undefined || written.includes('.') ? undefined : BigInt(written);
}
