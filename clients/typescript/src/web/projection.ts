import { InvalidKeyError } from '../errors.js';
import { canonicalKey } from '../isr/canonicalkey.js';
import { trim } from './directives.js';
import type { Settings } from './options.js';
import { exactCookies, exactParameters, prefixedCookies, prefixedParameters } from './wellknown.js';

/**
 * What a request is to the cache: a key, with the request that renders its page, or a reason to
 * pass it through. The rendering request is made of the key alone, so that nothing else of a
 * visitor's request can get into a page that others are served.
 */
export type Projection = { cacheKey: string; rendered: Request } | { bypass: string };

/** The longest reference in a response that is read, in characters. */
const maxReference = 4_096;
/** Headers by which sites commonly distinguish tenants. */
const tenantHeaders = ['x-tenant', 'x-tenant-id', 'tenant-id', 'x-org-id', 'x-organization-id', 'x-account-id'];

/** The methods that only read (RFC 9110, section 9.2.1, and the IANA registry of methods). */
const safeMethods: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'OPTIONS',
  'TRACE',
  'PROPFIND',
  'QUERY',
  'REPORT',
  'SEARCH',
]);

/** Reports whether a method only reads. An unknown one may change its page. */
export function isSafe(method: string): boolean {
  return safeMethods.has(method);
}

/** Returns what a request is to the cache. */
export function project(request: Request, settings: Settings): Projection {
  const { method, headers } = request;
  if (tenantHeaders.some((name) => headers.has(name))) return { bypass: 'tenant' };
  if (method !== 'GET' && method !== 'HEAD') return { bypass: 'method' };
  if (headers.has('authorization')) return { bypass: 'authorization' };
  if (headers.get('upgrade')?.toLowerCase() === 'websocket') return { bypass: 'upgrade' };
  if (!ignoresAll(headers.get('cookie'), settings.ignoreCookies)) return { bypass: 'cookie' };
  const keyed = keyOf(new URL(request.url), settings);
  return 'bypass' in keyed ? keyed : { ...keyed, rendered: renderOf(request, keyed.cacheKey, settings) };
}

/** The page is rendered from its key: two spellings of a path are one page. */
function renderOf({ url }: Request, cacheKey: string, { scheme }: Settings): Request {
  const headers = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'isr' };
  if (!scheme) return new Request(`${new URL(url).protocol}//${cacheKey}`, { headers });
  return new Request(`${scheme}://${cacheKey}`, { headers: { ...headers, 'x-forwarded-proto': scheme } });
}

/** Returns the key of the page at a URL, or why it has none. Keys have no scheme: http and https share their pages. */
function keyOf({ host, pathname, searchParams }: URL, settings: Settings): { cacheKey: string } | { bypass: string } {
  const kept = [...searchParams].filter(([name]) => settings.query.has(name) || !onlyTracks(name));
  try {
    const isKnown = settings.hosts.has(host) || settings.hosts.has(hostIn(canonicalKey(`${host}/`)));
    if (!isKnown) return { bypass: 'host' };
    if (kept.some(([name]) => !settings.query.has(name))) return { bypass: 'query' };
    const search = new URLSearchParams(kept).toString();
    return { cacheKey: canonicalKey(`${host}${pathname}${search && `?${search}`}`) };
  } catch (error) {
    if (error instanceof InvalidKeyError) return { bypass: settings.hosts.has(host) ? 'key-length' : 'host' };
    throw error;
  }
}

/**
 * Returns the key of the page that a field of a response refers to, such as `Location`; undefined if it has none. Each
 * character of a value is a byte.
 */
export function keyOfReference(base: string, reference: string, settings: Settings): string | undefined {
  const text = reference.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
  if (text.length > maxReference || !URL.canParse(text, base)) return undefined;
  const url = new URL(text, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return undefined;
  const keyed = keyOf(url, settings);
  return 'cacheKey' in keyed ? keyed.cacheKey : undefined;
}

/**
 * Returns the keys of the pages that a successful response to an unsafe request has changed (RFC 9111, section 4.4): the
 * pages of its URL, Location and Content-Location at the same host.
 */
export function changedKeys(url: string, headers: Headers, settings: Settings): string[] {
  const host = keyOfReference(url, '/', settings);
  if (host === undefined) return [];
  const references = [url, headers.get('location'), headers.get('content-location')];
  const keys = references.flatMap((reference) => {
    const key = reference === null ? undefined : keyOfReference(url, reference, settings);
    return key !== undefined && hostIn(key) === hostIn(host) ? [key] : [];
  });
  return [...new Set(keys)];
}

/**
 * Reports whether a response that was rendered without any header of a visitor is the one for a request: it has none of
 * the headers that the response varies on (RFC 9111, section 4.1).
 */
export function isSelected(request: Headers, response: Headers): boolean {
  const names = (response.get('vary') ?? '').split(',').map((name) => name.trim().toLowerCase());
  return names.every((name) => {
    if (name === '' || name === 'accept-encoding' || name === 'host') return true;
    return name !== '*' && /^[\w!#$%&'*+.^`|~-]+$/.test(name) && !request.has(name);
  });
}

function hostIn(cacheKey: string): string {
  return cacheKey.slice(0, cacheKey.indexOf('/'));
}

/** Returns whether a query parameter only records where a visitor came from; it is dropped. */
function onlyTracks(name: string): boolean {
  return exactParameters.has(name) || prefixedParameters.some((prefix) => name.startsWith(prefix));
}

function ignoresAll(cookies: string | null, patterns: readonly string[]): boolean {
  if (cookies === null) return true;
  return cookies.split(';').every((pair) => {
    const name = trim(pair).split('=', 1)[0] ?? '';
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
