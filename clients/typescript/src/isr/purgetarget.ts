import { InvalidInputError, InvalidKeyError } from '../errors.js';
import { shorten } from '../item.js';
import { checkOptions, type Members } from '../options.js';
import { canonicalKey } from './canonicalkey.js';
import type { Target } from './entry.js';
import { checkCacheKey, checkTenant, isWellFormed } from './key.js';
import { PURGE_LOG_PK } from './names.js';
import { checkPartition } from './partition.js';

/** The maximum number of targets of one purge: as many as fit into a transaction beside SEQ and LOG#. */
export const MAX_PURGE_TARGETS = 98;

/** The maximum size of the tenants and values of one purge together, in bytes: they share one row of the log. */
export const maxPurgeBytes = 256 << 10;

/** The longest tag, in bytes. */
const maxTagBytes = 1024;

/** The kinds of purge targets; see {@link PurgeTarget}. */
export type PurgeKind = 'key' | 'tag' | 'prefix' | 'tenant' | 'site';

/**
 * Selects the pages of a purge:
 *
 * - `key`: one page, by its cache key, `value`
 * - `tag`: the pages with the tag `value`
 * - `prefix`: the pages whose cache keys begin with `value`; {@link hostTarget} makes the target of a host
 * - `tenant`: all pages of a tenant
 * - `site`: all pages of all tenants
 */
export interface PurgeTarget {
  kind: PurgeKind;
  /** The cache key, the tag or the prefix. The other kinds have none. */
  value?: string;
  /** The tenant of the pages. Default: the store's; `site` has none. */
  tenant?: string;
  /** The partition key of the page, of kind `key` only. Default: the store's mapping of the cache key. */
  pk?: string;
}

const members: Members<PurgeTarget> = { kind: true, value: true, tenant: true, pk: true };

/** A valid target, with its defaults. Members without a value are empty. */
export type ResolvedTarget = Required<PurgeTarget>;

/**
 * Returns the target of all pages of a host (`example.com`, `example.com:8080`), as `isr serve` names them: the prefix
 * `<host>/`.
 * @throws InvalidKeyError
 */
export function hostTarget(host: string): PurgeTarget {
  if (typeof host !== 'string' || /[/?#]/.test(host)) {
    throw new InvalidInputError(`the host is ${JSON.stringify(shorten(String(host)))}: expected a name with no path`);
  }
  return { kind: 'prefix', value: canonicalKey(`${host}/`) };
}

/**
 * Validates a target, and applies the defaults of a store.
 * @throws InvalidInputError InvalidKeyError
 */
export function resolveTarget(
  target: PurgeTarget,
  of: { tenant: string; partition: (cacheKey: string) => string },
): ResolvedTarget {
  checkOptions('a purge target', target ?? {}, members);
  const { kind, value = '', pk = '' } = target ?? {};
  const tenant = target?.tenant ?? (kind === 'site' ? '' : of.tenant);
  if (tenant !== '') checkTenant(tenant);
  checkValue(kind, value, tenant);
  if (kind !== 'key') {
    if (pk !== '') throw new InvalidInputError(`a purge target of kind ${kind} has the pk ${pk}: expected none`);
    return { kind, tenant, value, pk };
  }
  if (pk === '' && tenant !== of.tenant) {
    throw new InvalidInputError(`a purge target of the tenant ${JSON.stringify(tenant)}: pass the pk of its page`);
  }
  const partition = pk === '' ? of.partition(value) : checkPartition(pk);
  if (partition !== PURGE_LOG_PK) return { kind, tenant, value, pk: partition };
  throw new InvalidKeyError(
    `the pk of a purge target is ${pk}, the partition of the purge log: expected one of a page`,
  );
}

function checkValue(kind: PurgeKind, value: string, tenant: string): void {
  if (kind === 'key' || kind === 'prefix') {
    checkCacheKey(value);
  } else if (kind === 'tag') {
    checkTag(value);
  } else if (kind === 'tenant') {
    if (tenant === '' || value !== '') {
      throw new InvalidInputError('a purge of a tenant needs the tenant, and has no value');
    }
  } else if (kind === 'site') {
    if (tenant !== '' || value !== '') {
      throw new InvalidInputError('a purge of the site, which is all pages, has no tenant and no value');
    }
  } else {
    throw new InvalidInputError(
      `the kind of a purge target is ${JSON.stringify(kind)}: expected key, tag, prefix, tenant or site`,
    );
  }
}

/** Checks a tag: 1 to 1,024 bytes of Unicode without control characters. */
function checkTag(tag: unknown): void {
  if (typeof tag !== 'string') throw new InvalidInputError(`a tag is of type ${typeof tag}: expected a string`);
  const bytes = Buffer.byteLength(tag);
  if (bytes === 0 || bytes > maxTagBytes) {
    throw new InvalidInputError(
      `the tag ${JSON.stringify(shorten(tag))} has ${bytes} bytes: expected 1 to ${maxTagBytes}`,
    );
  }
  if (!isWellFormed(tag) || [...tag].some((c) => c < ' ' || c === '\x7f')) {
    throw new InvalidInputError(
      `the tag ${JSON.stringify(shorten(tag))}: expected Unicode text without control characters`,
    );
  }
}

/**
 * Reports whether a target selects a page with these tags. A kind that this version does not know selects all pages of
 * its tenant: it may be a purge of any of them.
 */
export function covers(target: { kind: string; tenant: string; value: string }, page: Target, tags: Iterable<string>) {
  if (target.kind === 'site' && target.tenant === '') return true;
  if (target.tenant !== page.tenant) return false;
  switch (target.kind) {
    case 'key':
      return page.key === target.value;
    case 'tag':
      return new Set(tags).has(target.value);
    case 'prefix':
      return page.key.startsWith(target.value);
  }
  return true;
}
