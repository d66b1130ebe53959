import { InvalidInputError } from '../../errors.js';
import type { PublicPaths } from './paths.js';

/** What this package needs to know of a build. */
export interface Build extends PublicPaths {
  /** The deployment or the build id, by which Next.js distinguishes builds. */
  readonly id: string;
  /** The value of `x-prerender-revalidate` in requests of Next.js to itself, for `res.revalidate`. */
  readonly onDemandSecret: string;
}

/**
 * Reads the manifests of a build.
 * @throws InvalidInputError if it is no build
 */
export function buildIn(distDir: string, deploymentOfEnvironment: string | undefined): Build {
  const { join } = process.getBuiltinModule('node:path');
  const { readFileSync } = process.getBuiltinModule('node:fs');
  const textOf = (name: string) => {
    const file = join(distDir, name);
    try {
      return readFileSync(file, 'utf8');
    } catch (cause) {
      throw new InvalidInputError(`${file} cannot be read: expected a Next.js build there; set distDir`, { cause });
    }
  };
  const { basePath, i18n, deploymentId } = JSON.parse(textOf('routes-manifest.json'));
  const { preview } = JSON.parse(textOf('prerender-manifest.json'));
  return {
    // With a deploymentId, BUILD_ID is the same for all builds.
    id: deploymentOfEnvironment || deploymentId || textOf('BUILD_ID').trim(),
    basePath: typeof basePath === 'string' ? basePath : '',
    locales: Array.isArray(i18n?.locales) ? i18n.locales : [],
    defaultLocale: i18n?.defaultLocale,
    onDemandSecret: preview?.previewModeId ?? '',
  };
}
