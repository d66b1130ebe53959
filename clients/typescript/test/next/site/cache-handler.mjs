// The handler as compiled by the tests. On a busy machine calls and renders take seconds; tests
// that wait for a lease set a shorter one.
const { createCacheHandler } = await import(process.env.SITE_HANDLER);

const handler = createCacheHandler({
  callSeconds: Number(process.env.SITE_CALL_SECONDS ?? 30),
  leaseSeconds: Number(process.env.SITE_LEASE_SECONDS ?? 15),
  renderSeconds: Number(process.env.SITE_RENDER_SECONDS ?? 120),
  waitSeconds: Number(process.env.SITE_WAIT_SECONDS ?? 60),
  trustSeconds: Number(process.env.SITE_TRUST_SECONDS ?? 0),
});

// Behind `isr serve`, with Next.js's own cache or with this handler.
const behind = async (pages) => {
  const { behindGateway } = await import(process.env.SITE_GATEWAY);
  const drainSeconds = Number(process.env.SITE_DRAIN_SECONDS ?? 90);
  return behindGateway({ ...pages, waitSeconds: 60, drainSeconds });
};

export default process.env.SITE_BEHIND ? await behind(process.env.SITE_BEHIND === 'own' ? {} : { handler }) : handler;
