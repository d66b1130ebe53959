// Like the other site's: calls and renders take seconds on a busy machine.
const { createCacheHandler } = await import(process.env.SITE_HANDLER);

export default createCacheHandler({
  callSeconds: Number(process.env.SITE_CALL_SECONDS ?? 30),
  leaseSeconds: Number(process.env.SITE_LEASE_SECONDS ?? 15),
  waitSeconds: 60,
  trustSeconds: Number(process.env.SITE_TRUST_SECONDS ?? 0),
});
