import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

export default {
  basePath: '/shop',
  distDir: '.next/custom',
  output: 'standalone',
  cacheHandler: createRequire(import.meta.url).resolve('@facetheory/tabletheory/next'),
  outputFileTracingRoot: root,
  turbopack: { root },
};
