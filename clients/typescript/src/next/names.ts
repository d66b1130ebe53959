import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { InvalidInputError } from '../errors.js';
import type { Kind } from './contract.js';

/** Next.js keys longer than this, in bytes, are hashed: the length of request paths is unbounded. */
const maxPathBytes = 1024;

/**
 * Returns the cache key of a value. Pages belong to a build, since they refer to its scripts
 * and styles; pages of another build must never be served. Responses of fetches, which
 * Next.js keys by the request, are shared between builds, as in Next.js itself.
 */
export function cacheKeyOf(buildId: string, key: string, kind: Kind | 'FETCH'): string {
  const path = key.startsWith('/') ? key : `/${key}`;
  const short = Buffer.byteLength(path) > maxPathBytes ? `/sha256/${sha256(path)}` : path;
  if (kind === 'FETCH') return `next/fetch${short}`;
  return kind === 'IMAGE' ? `next/build/${buildId}/image${short}` : `next/build/${buildId}${short}`;
}

/**
 * Reads the build id that belongs to a directory `.next/server`.
 * @throws InvalidInputError if it is missing, since builds could not be told apart
 */
export function buildIdOf(serverDistDir: string | undefined): string {
  const file = join(serverDistDir ?? '.', '..', 'BUILD_ID');
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (cause) {
    throw new InvalidInputError(`${file} cannot be read: expected a Next.js build; set buildId otherwise`, {
      cause,
    });
  }
}

function sha256(s: string): string {
  return createHash('sha256').update(s, 'utf8').digest('hex');
}
