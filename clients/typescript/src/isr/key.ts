import { InvalidInputError, InvalidKeyError } from '../errors.js';
import { shorten } from '../item.js';

/** The longest text of a cache key, in bytes. */
const longestKey = 4096;
/** The longest idempotency key, in bytes. */
const longestRequestKey = 256;

/** @throws InvalidKeyError, or InvalidInputError of what is no string, unless the text can name a page: 1 to 4,096 bytes of Unicode. */
export function checkCacheKey(cacheKey: string): void {
  checkText(cacheKey, 'the cache key');
  const bytes = Buffer.byteLength(cacheKey);
  if (bytes === 0 || bytes > longestKey) {
    throw new InvalidKeyError(`the cache key has ${bytes} bytes: expected 1 to ${longestKey}`);
  }
}

/** @throws InvalidKeyError, or InvalidInputError of what is no string, unless the name matches `^[A-Za-z0-9._-]{1,64}$`. */
export function checkTenant(tenant: string): void {
  checkText(tenant, 'the tenant');
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(tenant)) {
    throw new InvalidKeyError(
      `the tenant ${JSON.stringify(shorten(tenant))} is none: expected 1 to 64 letters, digits, '.', '_' and '-'`,
    );
  }
}

/** @throws InvalidKeyError, or InvalidInputError of what is no string, unless the key can name a request: 1 to 256 bytes of printable ASCII without spaces. */
export function checkRequestKey(key: string): void {
  checkText(key, 'the idempotency key');
  if (key.length === 0 || key.length > longestRequestKey || !/^[!-~]*$/.test(key)) {
    throw new InvalidKeyError(
      `the idempotency key ${JSON.stringify(shorten(key))} of ${key.length} characters is none: expected 1 to ${longestRequestKey} of printable ASCII, without spaces`,
    );
  }
}

function checkText(value: unknown, what: string): asserts value is string {
  if (typeof value !== 'string') throw new InvalidInputError(`${what} is of type ${typeof value}: expected a string`);
  if (!isWellFormed(value)) {
    throw new InvalidKeyError(
      `${what} ${JSON.stringify(shorten(value))} has half of a surrogate pair: expected Unicode text`,
    );
  }
}

/** Whether a string can be written as UTF-8 and be the same string again. */
export function isWellFormed(s: string): boolean {
  return !/\p{Surrogate}/u.test(s);
}
