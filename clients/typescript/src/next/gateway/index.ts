/**
 * A cache handler for Next.js behind `isr serve --preset next`:
 *
 *	visitor ──► isr serve ──► next start ──► get, set ──► Next.js's own cache, or createCacheHandler
 *	              ▲   ▲          │
 *	              │   └── tags ──┤ responses name the tags of their pages (Cache-Tag)
 *	              └──── purges ──┘ revalidateTag, revalidatePath, updateTag, res.revalidate, new builds
 *
 * Purges go to the admin API of a server, or into the table that the servers share with
 * `createCacheHandler`.
 */

export type { GatewayOptions } from './gateway.js';
export { behindGateway } from './handler.js';
export { register } from './register.js';

import { behindGateway } from './handler.js';

/** Next.js's own cache behind the server that the environment names: ISR_ADMIN_URL, else http://127.0.0.1:9180, and ISR_ADMIN_TOKEN. */
export default behindGateway();
