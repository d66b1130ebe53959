import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

export default {
  basePath: '/shop',
  distDir: '.next/custom',
  output: 'standalone',
  cacheHandler: fileURLToPath(new URL('../package-handler.mjs', import.meta.url)),
  outputFileTracingRoot: root,
  experimental: { turbopackFileSystemCacheForBuild: false }, // no later build has the same sources
  turbopack: { root },
};
