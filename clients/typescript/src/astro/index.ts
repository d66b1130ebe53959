/**
 * A cache provider for Astro 7, for a site behind `isr serve`: `cache.invalidate` purges pages of the gateway, by path
 * and by tag, on all of its servers. Astro itself sends `CDN-Cache-Control` and `Cache-Tag`, which the gateway follows.
 *
 *	// astro.config.mjs
 *	cache: { provider: { entrypoint: '@facetheory/tabletheory/astro', config: { host: 'example.com' } } }
 */

import { InvalidInputError, UnknownOutcomeError } from '../errors.js';

/** The configuration of the provider. What is missing is read from the environment when pages are invalidated first. */
export interface AstroCacheConfig {
  /** The URL of the admin API of a server, such as `http://127.0.0.1:9180`. Default: ISR_ADMIN_URL, else http://127.0.0.1:9180. */
  adminUrl?: string;
  /** The host at which visitors reach the site, for `invalidate({ path })`. Default: ISR_HOST. */
  host?: string;
  /** The timeout of a purge, in seconds, at most 60. Default: 10. */
  timeoutSeconds?: number;
}

/** Astro's `CacheProvider`, as far as this package implements it: Astro's own headers are right. */
export interface AstroCacheProvider {
  readonly name: string;
  invalidate(options: { path?: string; tags?: string | readonly string[] }): Promise<void>;
}

/** How many targets a purge has at most. */
const maxTargets = 90;

/** Makes the provider. The token of the admin API is ISR_ADMIN_TOKEN: it does not belong into a configuration. */
export default function createProvider(config: AstroCacheConfig = {}): AstroCacheProvider {
  const { timeoutSeconds = 10 } = config;
  if (!(timeoutSeconds > 0 && timeoutSeconds <= 60)) {
    throw new InvalidInputError(`timeoutSeconds must be above 0 and at most 60 (got ${timeoutSeconds})`);
  }
  return {
    name: 'isr',
    async invalidate({ path, tags }) {
      const all = typeof tags === 'string' ? [tags] : (tags ?? []);
      const targets: object[] = all.map((tag) => ({ tag }));
      if (path !== undefined) targets.push({ url: urlOf(path, config) });
      for (let at = 0; at < targets.length; at += maxTargets) {
        await purge(config, targets.slice(at, at + maxTargets), timeoutSeconds * 1000);
      }
    },
  };
}

function urlOf(path: string, { host = process.env['ISR_HOST'] }: AstroCacheConfig): string {
  if (!host) throw new InvalidInputError('host is missing: set ISR_HOST, or host in the config of the cache provider');
  if (!path.startsWith('/')) throw new InvalidInputError(`the path ${JSON.stringify(path)} does not begin with /`);
  return `https://${host}${path}`; // keys have no scheme
}

async function purge(config: AstroCacheConfig, targets: object[], timeoutMs: number): Promise<void> {
  const adminUrl = config.adminUrl ?? process.env['ISR_ADMIN_URL'] ?? 'http://127.0.0.1:9180';
  const token = process.env['ISR_ADMIN_TOKEN'];
  if (!token) {
    throw new InvalidInputError('ISR_ADMIN_TOKEN is missing: set it to the token of the admin API of isr serve');
  }
  const [status, text] = await send(new URL('/-/purge', adminUrl), token, targets, timeoutMs);
  if (status >= 200 && status < 300) return;
  const message = `isr at ${adminUrl} refused a purge with status ${status}: ${text.slice(0, 500)}`;
  throw status < 500 ? new InvalidInputError(message) : new UnknownOutcomeError(message);
}

async function send(url: URL, token: string, targets: object[], timeoutMs: number): Promise<[number, string]> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ targets, mode: 'hard' }),
      signal: AbortSignal.timeout(timeoutMs),
      redirect: 'error', // the token is for this server
    });
    return [response.status, await response.text()];
  } catch (cause) {
    throw new UnknownOutcomeError(`isr at ${url.origin} did not answer a purge: is its admin API there?`, { cause });
  }
}
