import { createHash } from 'node:crypto';

import canonicalize from 'canonicalize';

import { InvalidInputError } from '../errors.js';

/** The maximum size of a request's inputs, in bytes of canonical JSON. */
const maxInputsBytes = 64 << 10;

/**
 * Returns the hex SHA-256 of the canonical JSON (RFC 8785) of a value. It is the same in
 * every language and for any order of members. Undefined members are omitted, as JSON.stringify does.
 * Pass integers beyond 2^53 as strings: as numbers they have already lost digits.
 * @throws InvalidInputError for values without portable JSON: NaN, infinities, bigint, lone surrogates, cycles; and for more than 64 KiB.
 */
export function hashInputs(value: unknown): string {
  const canonical = canonicalInputs(value);
  const bytes = Buffer.byteLength(canonical);
  if (bytes > maxInputsBytes) {
    throw new InvalidInputError(
      `the inputs of a request must have at most ${maxInputsBytes} bytes of JSON (got ${bytes})`,
    );
  }
  return createHash('sha256').update(canonical, 'utf8').digest('hex');
}

function canonicalInputs(value: unknown): string {
  let canonical: string | undefined;
  try {
    canonical = canonicalize(value);
  } catch (error) {
    throw new InvalidInputError(`the inputs of a request cannot be encoded as JSON: ${String(error)}`, {
      cause: error,
    });
  }
  if (canonical === undefined) {
    throw new InvalidInputError(`the inputs of a request are of type ${typeof value}: expected a JSON value`);
  }
  return canonical;
}
