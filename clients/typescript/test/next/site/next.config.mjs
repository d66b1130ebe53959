import { fileURLToPath } from 'node:url';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

export default {
  cacheHandler: here('./cache-handler.mjs'),
  turbopack: { root: here('.') },
  images: { customCacheHandler: true },
  // Each process keeps as little as it can, but for the test of what it keeps.
  cacheMaxMemorySize: Number(process.env.SITE_MEMORY ?? 0),
  // The mistake of a site, with a folder of its own.
  ...(process.env.SITE_PLURAL && { cacheHandlers: { default: here('./cache-handler.mjs') }, distDir: '.next/plural' }),
};
