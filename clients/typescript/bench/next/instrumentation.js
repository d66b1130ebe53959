/** As the peer's documentation recommends, pages of the build are put into Redis when a server starts. */
export async function register() {
  if (process.env.NEXT_RUNTIME !== 'nodejs' || process.env.BENCH_VARIANT !== 'redis') return;
  const { registerInitialCache } = await import('@fortedigital/nextjs-cache-handler/instrumentation');
  const CacheHandler = (await import('./handlers/redis.mjs')).default;
  await registerInitialCache(CacheHandler, { buildDir: '.next/redis', setOnlyIfNotExists: true });
}
