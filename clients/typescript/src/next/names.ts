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
 * Next.js keys by the request, are shared between builds, as Next.js itself does.
 */
export function cacheKeyOf(buildId: string, key: string, kind: Kind | 'FETCH'): string {
  const path = key.startsWith('/') ? key : `/${key}`;
  const short = Buffer.byteLength(path) > maxPathBytes ? `/sha256/${sha256(path)}` : path;
  if (kind === 'FETCH') return `next/fetch${short}`;
  return kind === 'IMAGE' ? `next/build/${buildId}/image${short}` : `next/build/${buildId}${short}`;
}

/** The BUILD_ID of every build of a site with a `deploymentId`. */
const buildIdOfDeployments = 'build-TfctsWXpff2fKS';

/**
 * Returns the id of the build that belongs to a directory `.next/server`, by which Next.js itself
 * distinguishes builds: NEXT_DEPLOYMENT_ID, which Next.js sets to `deploymentId` of its configuration, else
 * BUILD_ID. With a `deploymentId`, BUILD_ID is the same for all builds.
 * @throws InvalidInputError if there is none, since builds could not be distinguished
 */
export function buildIdOf(serverDistDir: string | undefined, environment: NodeJS.ProcessEnv): string {
  const deployment = environment['NEXT_DEPLOYMENT_ID'];
  if (deployment) return deployment;
  const file = (name: string) => join(serverDistDir ?? '.', '..', name);
  const buildId = textOf(file('BUILD_ID')).trim();
  if (buildId !== buildIdOfDeployments) return buildId;
  // With useSkewCookie the variable is empty.
  const { deploymentId } = JSON.parse(textOf(file('routes-manifest.json')));
  if (typeof deploymentId === 'string' && deploymentId !== '') return deploymentId;
  throw new InvalidInputError(
    `${file('routes-manifest.json')} has no deploymentId: set NEXT_DEPLOYMENT_ID, or buildId`,
  );
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new InvalidInputError(`${file} cannot be read: expected a Next.js build; set buildId otherwise`, { cause });
  }
}

function sha256(s: string): string {
  return createHash('sha256').update(s, 'utf8').digest('hex');
}
