// The settings of the site of Next.js 16. The package is imported by its name: Next.js bundles it into the middleware.
import { createCacheHandler } from '@facetheory/tabletheory/next';
import { behindGateway } from '@facetheory/tabletheory/next/gateway';

const handler = createCacheHandler({
  callSeconds: Number(process.env.SITE_CALL_SECONDS ?? 30),
  leaseSeconds: Number(process.env.SITE_LEASE_SECONDS ?? 15),
  waitSeconds: 60,
  trustSeconds: Number(process.env.SITE_TRUST_SECONDS ?? 0),
});

// Behind `isr serve`, with Next.js's own cache or with this handler.
const behind = () =>
  behindGateway({
    ...(process.env.SITE_BEHIND !== 'own' && { handler }),
    waitSeconds: 60,
    drainSeconds: Number(process.env.SITE_DRAIN_SECONDS ?? 90),
  });

export default process.env.SITE_BEHIND ? behind() : handler;
