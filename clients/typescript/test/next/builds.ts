/** Directories of builds, as `next build` writes them, for tests of what servers do with them. */

import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import type { Cleanup } from '../engines.js';

/** A page of a build. */
export interface BuiltPage {
  path: string;
  kind: 'APP_PAGE' | 'APP_ROUTE' | 'PAGES';
  /** The files beside `.meta`, by suffix. */
  files: Record<string, string>;
  meta?: Record<string, unknown>;
  revalidate?: number | false;
  isFallback?: boolean;
}

/** Returns Next.js's key of a page. */
export function keyOf(kind: string, path: string): string {
  return `/route-cache/${kind}/${createHash('sha256').update(path).digest('hex')}/$${path}`;
}

/**
 * Creates the directory `server` of a build. Without `startedAtMs` the build has no stamp. In builds of
 * releases whose keys are paths, descriptions have no keys, and there are none of the pages router.
 */
export async function newBuild(
  t: Cleanup,
  pages: readonly BuiltPage[] = [],
  startedAtMs?: number,
  keysArePaths = false,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'next-build-'));
  t.after(() => rm(folder, { recursive: true }));
  const server = join(folder, 'server');
  for (const { path, kind, files, meta, isFallback = false } of pages) {
    const base = join(server, kind === 'PAGES' ? 'pages' : 'app', path);
    await mkdir(dirname(base), { recursive: true });
    const routeCache = { key: keyOf(kind, path), isFallback };
    const described = keysArePaths ? meta : { routeCache, ...meta };
    if (!keysArePaths || kind !== 'PAGES') await writeFile(`${base}.meta`, JSON.stringify(described ?? {}));
    for (const [suffix, text] of Object.entries(files)) {
      await mkdir(dirname(base + suffix), { recursive: true });
      await writeFile(base + suffix, text);
    }
  }
  await mkdir(join(server, 'route-cache'), { recursive: true });
  if (startedAtMs) await writeFile(join(server, 'route-cache/facetheory-build.json'), JSON.stringify({ startedAtMs }));
  const routes = pages.map(({ path, revalidate = 86_400 }) => [path, { initialRevalidateSeconds: revalidate }]);
  const manifest = {
    routes: { ...Object.fromEntries(routes), '/absent': { initialRevalidateSeconds: 86_400 } },
    dynamicRoutes: {},
    notFoundRoutes: ['/absent'],
    preview: { previewModeId: 'secret' },
  };
  await writeFile(join(folder, 'prerender-manifest.json'), JSON.stringify(manifest));
  return server;
}
