import { InvalidInputError } from '../../errors.js';
import type { CacheHandler, CacheHandlerClass, HandlerContext } from '../contract.js';

/** The cache of Next.js itself: pages in the files of the build and in memory. */
const ownModule = 'next/dist/server/lib/incremental-cache/file-system-cache.js';

let own: CacheHandlerClass | undefined;

/**
 * Returns the class of Next.js's own cache, of the `next` that serves the site. Where Next.js has no
 * files, such as a proxy, it is a class that keeps nothing.
 * @throws InvalidInputError if there is none
 */
export function ownHandler({ serverDistDir }: HandlerContext): CacheHandlerClass {
  if (!serverDistDir || typeof process?.getBuiltinModule !== 'function') return Nothing;
  own ??= load(serverDistDir);
  return own;
}

function load(serverDistDir: string): CacheHandlerClass {
  const { createRequire } = process.getBuiltinModule('node:module');
  const failures: unknown[] = [];
  // The build may be outside of the site, but the working directory of its server is not.
  for (const from of [`${serverDistDir}/`, `${process.cwd()}/`]) {
    try {
      return createRequire(from)(ownModule).default;
    } catch (failure) {
      failures.push(failure);
    }
  }
  throw new InvalidInputError(
    `${ownModule} was not found from ${serverDistDir} and ${process.cwd()}: is next installed there?`,
    {
      cause: failures[0],
    },
  );
}

class Nothing implements CacheHandler {
  async get(): Promise<null> {
    return null;
  }
  async set(): Promise<void> {}
  async revalidateTag(): Promise<void> {}
  resetRequestCache(): void {}
}
