import { fileURLToPath } from 'node:url';

export default {
  i18n: { locales: ['en', 'de'], defaultLocale: 'en' },
  cacheHandler: fileURLToPath(new URL('../package-handler.mjs', import.meta.url)),
  outputFileTracingRoot: fileURLToPath(new URL('..', import.meta.url)),
};
