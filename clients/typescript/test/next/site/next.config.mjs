import { fileURLToPath } from 'node:url';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

// The deployments of the tests; each has its own build.
const deployment = process.env.SITE_DEPLOYMENT ?? 'one';

export default {
  deploymentId: deployment,
  distDir: deployment === 'one' ? '.next' : `.next/${deployment}`,
  cacheHandler: here('./cache-handler.mjs'),
  turbopack: { root: here('.') },
  images: { customCacheHandler: true },
  // No values in memory, except in the test of that memory.
  cacheMaxMemorySize: Number(process.env.SITE_MEMORY ?? 0),
  // A wrong configuration, with its own distDir.
  ...(process.env.SITE_PLURAL && { cacheHandlers: { default: here('./cache-handler.mjs') }, distDir: '.next/plural' }),
};
