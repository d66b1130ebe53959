export default {
  compatibilityDate: '2025-07-01',
  telemetry: false,
  devtools: { enabled: false },
  css: ['~/site.css'],
  features: { inlineStyles: false },
  experimental: { payloadExtraction: true },
  routeRules: {
    // Cached by Nitro, too. Only such pages have their data at _payload.json.
    '/stories/**': { swr: 600 },
  },
};
