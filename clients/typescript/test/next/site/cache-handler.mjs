// The handler as compiled by the tests, with a lease short enough to wait for.
const { createCacheHandler } = await import(process.env.SITE_HANDLER);

export default createCacheHandler({
  leaseSeconds: Number(process.env.SITE_LEASE_SECONDS ?? 2),
  waitSeconds: Number(process.env.SITE_WAIT_SECONDS ?? 10),
});
