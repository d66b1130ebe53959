import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

// The site is also built by Next.js 15, which has not all of these settings.
const isOlder = createRequire(import.meta.url)('next/package.json').version.startsWith('15.');

// The deployments of the tests; each has its own build.
const deployment = process.env.SITE_DEPLOYMENT ?? 'one';

export default {
  deploymentId: deployment,
  distDir: deployment === 'one' ? '.next' : `.next/${deployment}`,
  cacheHandler: here('./cache-handler.mjs'),
  turbopack: { root: here('.') },
  ...(!isOlder && {
    images: { customCacheHandler: true },
    experimental: { turbopackFileSystemCacheForBuild: false }, // no later build has the same sources
  }),
  // No values in memory, except in the test of that memory.
  cacheMaxMemorySize: Number(process.env.SITE_MEMORY ?? 0),
  // A wrong configuration, with its own distDir.
  ...(process.env.SITE_PLURAL && { cacheHandlers: { default: here('./cache-handler.mjs') }, distDir: '.next/plural' }),
};
