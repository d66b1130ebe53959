export default {
  poweredByHeader: true,
  async redirects() {
    return [{ source: '/old', destination: '/articles/rye', permanent: true }];
  },
};
