export default {
  poweredByHeader: true,
  experimental: { turbopackFileSystemCacheForBuild: false }, // a build for tests takes a sixth less time, and no other follows
  async redirects() {
    return [{ source: '/old', destination: '/articles/rye', permanent: true }];
  },
};
