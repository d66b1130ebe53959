import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

export default {
  i18n: { locales: ['en', 'de'], defaultLocale: 'en' },
  cacheHandler: createRequire(import.meta.url).resolve('@facetheory/tabletheory/next'),
  outputFileTracingRoot: fileURLToPath(new URL('..', import.meta.url)),
};
