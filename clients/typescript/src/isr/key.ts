import { InvalidInputError, InvalidKeyError } from '../errors.js';
import { shorten } from '../item.js';

/** The longest cache key, in bytes. */
const maxKeyBytes = 4096;
/** The longest idempotency key, in bytes. */
const maxRequestKeyBytes = 256;

/** Checks a cache key: 1 to 4,096 bytes of Unicode. @throws InvalidKeyError, InvalidInputError if it is not a string */
export function checkCacheKey(cacheKey: string): void {
  checkText(cacheKey, 'the cache key');
  const bytes = Buffer.byteLength(cacheKey);
  if (bytes === 0 || bytes > maxKeyBytes) {
    throw new InvalidKeyError(`the cache key must have 1 to ${maxKeyBytes} bytes (got ${bytes})`);
  }
}

/** Checks a tenant: `^[A-Za-z0-9._-]{1,64}$`. @throws InvalidKeyError, InvalidInputError if it is not a string */
export function checkTenant(tenant: string): void {
  checkText(tenant, 'the tenant');
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(tenant)) {
    throw new InvalidKeyError(
      `invalid tenant ${JSON.stringify(shorten(tenant))}: expected 1 to 64 letters, digits, '.', '_' and '-'`,
    );
  }
}

/** Checks an idempotency key: 1 to 256 printable ASCII characters without spaces. @throws InvalidKeyError, InvalidInputError if it is not a string */
export function checkRequestKey(key: string): void {
  checkText(key, 'the idempotency key');
  if (key.length === 0 || key.length > maxRequestKeyBytes || !/^[!-~]*$/.test(key)) {
    throw new InvalidKeyError(
      `invalid idempotency key ${JSON.stringify(shorten(key))} of ${key.length} characters: expected 1 to ${maxRequestKeyBytes} printable ASCII characters without spaces`,
    );
  }
}

function checkText(value: unknown, what: string): asserts value is string {
  if (typeof value !== 'string') throw new InvalidInputError(`${what} is of type ${typeof value}: expected a string`);
  if (!isWellFormed(value)) {
    throw new InvalidKeyError(`${what} ${JSON.stringify(shorten(value))} has a lone surrogate: expected Unicode text`);
  }
}

/** Reports whether a string round-trips through UTF-8. */
export function isWellFormed(s: string): boolean {
  return !/\p{Surrogate}/u.test(s);
}
