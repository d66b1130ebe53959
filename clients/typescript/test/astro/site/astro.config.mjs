import node from '@astrojs/node';

export default {
  output: 'server',
  adapter: node({ mode: 'standalone' }),
  cache: { provider: { entrypoint: new URL(process.env.SITE_PROVIDER) } },
  security: { checkOrigin: false },
  devToolbar: { enabled: false },
};
