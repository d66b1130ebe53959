import { InvalidKeyError } from '../errors.js';
import { canonicalKey } from '../isr/canonicalkey.js';
import type { Settings } from './options.js';

/**
 * What a request is to the cache: a key, with the request that renders its page, or a reason to
 * pass it through. The rendering request is made of the key alone, so that nothing else of a
 * visitor's request can get into a page that others are served.
 */
export type Projection = { cacheKey: string; rendered: Request } | { bypass: string };

/** Cookies that scripts in the browser set and read, not renderers. */
const analyticsCookies: readonly string[] = ['_ga', '_ga_*', '_gid', '_gat', '_gat_*', '_gcl_*', '_gac_*'].concat(
  ['__utm*', '_fbp', '_fbc', '_pk_*', '_hj*', '_clck', '_clsk', '_uetsid', '_uetvid', '_ttp', '_tt_*'],
  ['__hstc', '__hssc', '__hssrc', 'hubspotutk', 'ajs_*', 'amplitude_*', 'amp_*', 'mp_*', '_matomo_*'],
);

/** Query parameters that only record where a visitor came from; they are dropped. */
const tracking =
  /^(?:(?:utm|mtm|pk)_.*|gclid|gclsrc|dclid|gbraid|wbraid|_gl|_ga|fbclid|msclkid|twclid|ttclid|li_fat_id|igshid|yclid|mc_cid|mc_eid|_hsenc|_hsmi|mkt_tok)$/;

/** Headers by which sites commonly tell tenants apart. */
const tenantHeaders = ['x-tenant', 'x-tenant-id', 'tenant-id', 'x-org-id', 'x-organization-id', 'x-account-id'];

/** Returns what a request is to the cache. */
export function project(request: Request, settings: Settings): Projection {
  const { method, headers } = request;
  if (method !== 'GET' && method !== 'HEAD') return { bypass: 'method' };
  if (headers.has('authorization')) return { bypass: 'authorization' };
  if (headers.has('upgrade')) return { bypass: 'upgrade' };
  if (tenantHeaders.some((name) => headers.has(name))) return { bypass: 'tenant' };
  if (!ignoresAll(headers.get('cookie'), settings.ignoreCookies)) return { bypass: 'cookie' };
  const url = new URL(request.url);
  if (!settings.hosts.has(url.host)) return { bypass: 'host' };
  const kept = [...url.searchParams].filter(([name]) => !tracking.test(name) || settings.query.has(name));
  if (kept.some(([name]) => !settings.query.has(name))) return { bypass: 'query' };
  return keyed(url, kept);
}

function keyed(url: URL, query: [string, string][]): Projection {
  const search = new URLSearchParams(query).toString();
  try {
    const cacheKey = canonicalKey(`${url.host}${url.pathname}${search && `?${search}`}`);
    // The page is rendered from its key: two spellings of a path are one page.
    const rendered = new Request(`${url.protocol}//${cacheKey}`, {
      headers: { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'isr' },
    });
    return { cacheKey, rendered };
  } catch (error) {
    if (error instanceof InvalidKeyError) return { bypass: 'key-length' };
    throw error;
  }
}

function ignoresAll(cookies: string | null, patterns: readonly string[]): boolean {
  if (cookies === null) return true;
  return cookies.split(';').every((pair) => {
    const name = pair.split('=', 1)[0]?.trim() ?? '';
    return name === '' || [...analyticsCookies, ...patterns].some((pattern) => matches(name, pattern));
  });
}

function matches(name: string, pattern: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}
