import cacheHandler from './cache-handler.mjs';

const { createUseCacheHandler } = await import(process.env.SITE_USE_CACHE);

export default createUseCacheHandler(cacheHandler);
