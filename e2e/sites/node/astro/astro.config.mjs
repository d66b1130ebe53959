import node from '@astrojs/node';

export default {
  output: 'server',
  adapter: node({ mode: 'standalone' }),
  build: { inlineStylesheets: 'never' },
  // The hosts at which visitors reach the site; forms are refused for others.
  security: { allowedDomains: [{ hostname: '127.0.0.1' }] },
  session: { driver: 'memory' },
  devToolbar: { enabled: false },
};
