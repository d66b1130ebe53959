import { fileURLToPath } from 'node:url';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

const pages = here('./cache-handler.mjs');
const functions = here('./use-cache-handler.mjs');

export default {
  cacheComponents: true,
  cacheHandler: pages,
  cacheHandlers: { default: functions, remote: functions },
  cacheLife: {
    brief: { stale: 30, revalidate: 3, expire: 3600 },
    hour: { stale: 300, revalidate: 3600, expire: 86400 },
  },
  experimental: { turbopackFileSystemCacheForBuild: false }, // no later build has the same sources
  turbopack: { root: here('..') },
  cacheMaxMemorySize: Number(process.env.SITE_MEMORY ?? 0),
};
