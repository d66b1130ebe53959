import { createHash } from 'node:crypto';

import canonicalize from 'canonicalize';

import { InvalidInputError } from '../errors.js';

/** Bounds the inputs of a request, in bytes of canonical JSON. */
const longestInputs = 64 << 10;

/**
 * The hex SHA-256 of the canonical JSON (RFC 8785) of a value: the same for the same
 * inputs in every language, whatever the order of members. Members that are undefined
 * are left out, as JSON does. Write integers beyond 2^53 as strings: a number has lost
 * their last digits before anybody sees it.
 * @throws InvalidInputError for what JSON cannot say the same way in every language: NaN, infinities, bigint, text that is no Unicode, circles; and more than 64 KiB.
 */
export function hashInputs(value: unknown): string {
  const canonical = canonicalInputs(value);
  const bytes = Buffer.byteLength(canonical);
  if (bytes > longestInputs) {
    throw new InvalidInputError(
      `the inputs of a request have ${bytes} bytes of JSON: expected ${longestInputs} at most`,
    );
  }
  return createHash('sha256').update(canonical, 'utf8').digest('hex');
}

function canonicalInputs(value: unknown): string {
  let canonical: string | undefined;
  try {
    canonical = canonicalize(value);
  } catch (error) {
    throw new InvalidInputError(`the inputs of a request cannot be written as JSON: ${String(error)}`, {
      cause: error,
    });
  }
  if (canonical === undefined) {
    throw new InvalidInputError(`the inputs of a request are of type ${typeof value}: expected a value of JSON`);
  }
  return canonical;
}
