// The settings of cache-handler.mjs. The package is imported by its name: Next.js bundles it into the proxies.
import { createCacheHandler } from '@facetheory/tabletheory/next';

export default createCacheHandler({
  callSeconds: Number(process.env.SITE_CALL_SECONDS ?? 30),
  leaseSeconds: Number(process.env.SITE_LEASE_SECONDS ?? 15),
  waitSeconds: 60,
  trustSeconds: Number(process.env.SITE_TRUST_SECONDS ?? 0),
});
