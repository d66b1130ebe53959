import { InvalidKeyError } from '../errors.js';
import { canonicalKey } from '../isr/canonicalkey.js';
import type { Settings } from './options.js';
import { exactCookies, exactParameters, prefixedCookies, prefixedParameters } from './wellknown.js';

/**
 * What a request is to the cache: a key, with the request that renders its page, or a reason to
 * pass it through. The rendering request is made of the key alone, so that nothing else of a
 * visitor's request can get into a page that others are served.
 */
export type Projection = { cacheKey: string; rendered: Request } | { bypass: string };

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
  const kept = [...url.searchParams].filter(([name]) => settings.query.has(name) || !onlyTracks(name));
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

/** Returns whether a query parameter only records where a visitor came from; it is dropped. */
function onlyTracks(name: string): boolean {
  return exactParameters.has(name) || prefixedParameters.some((prefix) => name.startsWith(prefix));
}

function ignoresAll(cookies: string | null, patterns: readonly string[]): boolean {
  if (cookies === null) return true;
  return cookies.split(';').every((pair) => {
    const name = pair.split('=', 1)[0]?.trim() ?? '';
    return name === '' || ignores(name, patterns);
  });
}

/** Returns whether pages do not depend on a cookie. A pattern after `!` names one on which they do. */
function ignores(name: string, patterns: readonly string[]): boolean {
  if (patterns.some((pattern) => pattern.startsWith('!') && matches(name, pattern.slice(1)))) return false;
  return (
    exactCookies.has(name) ||
    prefixedCookies.some((prefix) => name.startsWith(prefix)) ||
    patterns.some((pattern) => matches(name, pattern))
  );
}

function matches(name: string, pattern: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}
