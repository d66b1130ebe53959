/** The file with the start of the build, in a directory that `output: 'standalone'` copies as a whole. */
export const stampFile = 'route-cache/facetheory-build.json';

/**
 * Writes when the build began, unless this build has. It is called before `next build` renders
 * the first page, in each of its processes. A stamp of an earlier build, if Next.js did not clean
 * the directory (`cleanDistDir: false`), makes the pages count as older than they are.
 */
export function stampBuild(serverDistDir: string | undefined, nowMs: number): void {
  // The module is part of bundles for the edge runtime: it has no import of `node:fs`.
  const fs = process.env['NEXT_RUNTIME'] === 'edge' ? undefined : process.getBuiltinModule('node:fs');
  if (!fs || !serverDistDir) return;
  const file = `${serverDistDir}/${stampFile}`;
  if (fs.existsSync(file)) return;
  try {
    fs.mkdirSync(`${serverDistDir}/route-cache`, { recursive: true });
    fs.writeFileSync(file, JSON.stringify({ startedAtMs: nowMs }), { flag: 'wx' });
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code === 'EEXIST') return; // another process of the build
    console.warn(`ISR cache: ${file} cannot be written: servers will render the pages of this build again`, failure);
  }
}
