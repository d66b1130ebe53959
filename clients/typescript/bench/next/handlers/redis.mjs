// The production example of @fortedigital/nextjs-cache-handler, with Redis only, as it allows.
import { CacheHandler } from '@fortedigital/nextjs-cache-handler';
import createRedisHandler from '@fortedigital/nextjs-cache-handler/redis-strings';
import { createClient } from '@redis/client';

CacheHandler.onCreation(() => {
  if (process.env.NEXT_PHASE === 'phase-production-build') return { handlers: [] };
  globalThis.redisHandlers ??= (async () => {
    const client = createClient({ url: process.env.REDIS_URL, pingInterval: 10_000 });
    client.on('error', (error) => console.warn('Redis', error));
    await client.connect();
    return { handlers: [createRedisHandler({ client, keyPrefix: 'nextjs:' })] };
  })();
  return globalThis.redisHandlers;
});

export default CacheHandler;
