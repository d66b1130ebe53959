import { createHash } from 'node:crypto';

import { InvalidKeyError } from '../errors.js';
import { checkCacheKey, checkTenant } from './key.js';

/** The longest partition key of DynamoDB, in bytes. */
const maxPartitionKeyBytes = 2048;

/**
 * Returns the partition key of a page in the `hashed` scheme of `isr serve`: an optional
 * `TENANT#<tenant>#`, then `CACHE#` and the hex SHA-256 of the cache key. Hashing spreads
 * keys evenly and bounds their length.
 * @throws InvalidKeyError if the key or the tenant is invalid.
 */
export function hashedPartition(cacheKey: string, tenant = ''): string {
  checkCacheKey(cacheKey);
  return `${tenantPrefix(tenant)}CACHE#${sha256(cacheKey)}`;
}

/**
 * Returns the partition key for tables with readable keys: the tenant's prefix, `CACHE#`
 * and the cache key.
 * @throws InvalidKeyError if the key or the tenant is invalid, or the result exceeds 2,048 bytes.
 */
export function rawPartition(cacheKey: string, tenant = ''): string {
  checkCacheKey(cacheKey);
  return checkPartition(`${tenantPrefix(tenant)}CACHE#${cacheKey}`);
}

/**
 * Returns the prefix of a partition's stored bodies in the bucket or directory of
 * `isr serve`: relative, ending in a slash.
 */
export function bodyPrefix(pk: string): string {
  return `bodies/${sha256(pk)}/`;
}

/**
 * Returns the partition key if it is valid for DynamoDB: text of 1 to 2,048 bytes.
 * @throws InvalidKeyError otherwise.
 */
export function checkPartition(pk: string): string {
  const bytes = typeof pk === 'string' ? Buffer.byteLength(pk) : 0;
  if (bytes === 0 || bytes > maxPartitionKeyBytes) {
    throw new InvalidKeyError(
      `the partition key must have 1 to ${maxPartitionKeyBytes} bytes (got ${bytes}); use hashedPartition for long cache keys`,
    );
  }
  return pk;
}

function tenantPrefix(tenant: string): string {
  if (tenant === '') return '';
  checkTenant(tenant);
  return `TENANT#${tenant}#`;
}

function sha256(s: string): string {
  return createHash('sha256').update(s, 'utf8').digest('hex');
}
