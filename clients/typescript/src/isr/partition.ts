import { createHash } from 'node:crypto';

import { InvalidKeyError } from '../errors.js';
import { checkCacheKey, checkTenant } from './key.js';

/** The longest partition key of DynamoDB, in bytes. */
const longestPartitionKey = 2048;

/**
 * The partition key of a page by the preset `hashed`, which `isr serve` uses:
 * `CACHE#` and the hex SHA-256 of the key's text, after `TENANT#<tenant>#` where
 * there is a tenant. It spreads keys evenly and hides their length.
 * @throws InvalidKeyError if the key or the tenant is none.
 */
export function hashedPartition(cacheKey: string, tenant = ''): string {
  checkCacheKey(cacheKey);
  return `${tenantPrefix(tenant)}CACHE#${sha256(cacheKey)}`;
}

/**
 * The partition key of tables that services write with readable keys: `CACHE#` and
 * the key's text, after the tenant's prefix.
 * @throws InvalidKeyError if the key or the tenant is none, or the whole has more than 2,048 bytes.
 */
export function rawPartition(cacheKey: string, tenant = ''): string {
  checkCacheKey(cacheKey);
  return checkPartition(`${tenantPrefix(tenant)}CACHE#${cacheKey}`);
}

/**
 * Where the bodies of a partition are, in the bucket or folder that `isr serve`
 * reads: a relative prefix that ends in a slash.
 */
export function bodyPrefix(pk: string): string {
  return `bodies/${sha256(pk)}/`;
}

/**
 * The partition key, if DynamoDB can have it: text of 1 to 2,048 bytes.
 * @throws InvalidKeyError otherwise.
 */
export function checkPartition(pk: string): string {
  const bytes = typeof pk === 'string' ? Buffer.byteLength(pk) : 0;
  if (bytes === 0 || bytes > longestPartitionKey) {
    throw new InvalidKeyError(
      `the partition key has ${bytes} bytes: expected 1 to ${longestPartitionKey}; hashedPartition makes short ones of long keys`,
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
