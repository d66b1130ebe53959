import { fileURLToPath } from 'node:url';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const variant = process.env.BENCH_VARIANT ?? 'file';
const handlers = { table: './handlers/table.mjs', redis: './handlers/redis.mjs' };

export default {
  distDir: `.next/${variant}`,
  turbopack: { root: here('.') },
  compress: false,
  ...(handlers[variant] && { cacheHandler: here(handlers[variant]) }),
};
