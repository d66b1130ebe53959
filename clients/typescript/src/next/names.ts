import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { InvalidInputError } from '../errors.js';
import type { Kind } from './contract.js';

/** Keys of Next that are longer, in bytes, are known by their hash: what visitors ask for is not bounded. */
const longestPath = 1024;

/**
 * The cache key of a value. Pages belong to a build: they name its scripts and its
 * styles, and those of another build must never be served. The answers of fetches,
 * which Next names by what was asked, outlive a build, as they do in Next itself.
 */
export function cacheKeyOf(buildId: string, key: string, kind: Kind | 'FETCH'): string {
  const path = key.startsWith('/') ? key : `/${key}`;
  const short = Buffer.byteLength(path) > longestPath ? `/sha256/${sha256(path)}` : path;
  if (kind === 'FETCH') return `next/fetch${short}`;
  return kind === 'IMAGE' ? `next/build/${buildId}/image${short}` : `next/build/${buildId}${short}`;
}

/**
 * The id of the build in a folder `.next/server`.
 * @throws InvalidInputError if there is none: pages would be those of any build
 */
export function buildIdOf(serverDistDir: string | undefined): string {
  const file = join(serverDistDir ?? '.', '..', 'BUILD_ID');
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (cause) {
    throw new InvalidInputError(`${file} cannot be read: expected the build of Next.js; give buildId otherwise`, {
      cause,
    });
  }
}

function sha256(s: string): string {
  return createHash('sha256').update(s, 'utf8').digest('hex');
}
