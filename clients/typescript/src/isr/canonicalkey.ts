import { isIPv6 } from 'node:net';

import { InvalidInputError, InvalidKeyError } from '../errors.js';
import { shorten } from '../item.js';
import { checkCacheKey } from './key.js';

/**
 * Returns the canonical cache key that `isr serve` uses for a URL
 * (`https://example.com/news?page=2`) or a key: no scheme, host in lower case without the
 * default port, path normalized by RFC 3986, query sorted by name, variant after `#`. All
 * query parameters are kept: leave out those that the route drops.
 * @throws InvalidKeyError if it has no valid host name, is badly encoded, or too long.
 */
export function canonicalKey(url: string): string {
  if (typeof url !== 'string') throw new InvalidInputError(`the URL is of type ${typeof url}: expected a string`);
  const { host, path, query, variant } = split(url.replace(/^https?:\/\//i, ''));
  if (host.endsWith(':') && path.startsWith('//')) refuse(url, 'has a scheme other than http and https');
  const key =
    canonicalHost(host, url) +
    canonicalPath(path || '/', url) +
    prefixed('?', canonicalQuery(query, url)) +
    prefixed('#', variant);
  checkCacheKey(key);
  return key;
}

function split(text: string): { host: string; path: string; query: string; variant: string } {
  const [beforeVariant, variant] = cut(text, '#');
  const [location, query] = cut(beforeVariant, '?');
  const slash = location.indexOf('/');
  if (slash < 0) return { host: location, path: '', query, variant };
  return { host: location.slice(0, slash), path: location.slice(slash), query, variant };
}

function cut(s: string, separator: string): [before: string, after: string] {
  const at = s.indexOf(separator);
  return at < 0 ? [s, ''] : [s.slice(0, at), s.slice(at + separator.length)];
}

function prefixed(mark: string, s: string): string {
  return s === '' ? '' : mark + s;
}

function refuse(url: string, what: string): never {
  throw new InvalidKeyError(
    `${JSON.stringify(shorten(url))} ${what}; expected a URL like https://example.com/page or a key like example.com/page`,
  );
}

/**
 * Normalizes a host: a name, an IPv4 address or a bracketed IPv6 address, in lower case,
 * without a trailing dot, with its port (1 to 65535) unless it is the default of either
 * scheme, since keys have no scheme.
 */
function canonicalHost(host: string, url: string): string {
  const [, given = '', port = ''] = /^(\[[^\]]*\]|[^:]*)(?::(\d*))?$/.exec(host) ?? [];
  const name = given.startsWith('[') ? given : given.replace(/\.$/, '');
  if (host.length > maxHostLength || !isHostName(name) || !/^(?:[1-9]\d{0,4})?$/.test(port) || Number(port) > 65535) {
    return refuse(url, 'does not begin with a host name');
  }
  const shown = port === '' || port === '80' || port === '443' ? '' : `:${port}`;
  return name.toLowerCase() + shown;
}

/** The longest host with port: the longest DNS name, a trailing dot and a port. */
const maxHostLength = 260;

/** Reports whether a name consists of dot-separated labels of letters, digits, `-` and `_`, or is a bracketed IPv6 address without a zone. */
function isHostName(name: string): boolean {
  if (name.startsWith('[')) return isIPv6(name.slice(1, -1)) && !name.includes('%');
  return /^[\w-]+(?:\.[\w-]+)*$/.test(name);
}

/** Normalizes a path by RFC 3986, section 6.2.2: upper-case hex digits, unreserved characters decoded. */
function canonicalPath(path: string, url: string): string {
  if (!/^\/(?:[!$&-;=@-[\]_a-z~]|%[0-9A-Fa-f]{2})*$/.test(path)) {
    return refuse(url, 'has a path with invalid percent-encoding');
  }
  return path.replace(/%[0-9A-Fa-f]{2}/g, (encoded) => {
    const c = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
    return /[A-Za-z0-9._~-]/.test(c) ? c : encoded.toUpperCase();
  });
}

/**
 * Percent-encodes the query and sorts it by the bytes of the names. Parameters with the
 * same name keep their order, which may matter to the renderer.
 */
function canonicalQuery(query: string, url: string): string {
  const pairs = query
    .split('&')
    .filter((part) => part !== '')
    .map((part) => canonicalParameter(part, url));
  pairs.sort((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name))); // ASCII: by bytes
  return pairs.map((p) => p.text).join('&');
}

function canonicalParameter(part: string, url: string): { name: string; text: string } {
  const equals = part.indexOf('=');
  const name = encode(part.slice(0, equals < 0 ? part.length : equals), url);
  if (part.includes(';')) return refuse(url, 'has a query with a semicolon, which some servers treat as a separator');
  return { name, text: equals < 0 ? name : `${name}=${encode(part.slice(equals + 1), url)}` };
}

/** Decodes to bytes and percent-encodes all but unreserved characters. */
function encode(s: string, url: string): string {
  let out = '';
  const bytes = Buffer.from(s, 'utf8');
  for (let i = 0; i < bytes.length; i++) {
    let c = bytes[i] as number;
    if (c === 0x25) {
      const digits = bytes.toString('latin1', i + 1, i + 3);
      if (!/^[0-9A-Fa-f]{2}$/.test(digits)) return refuse(url, 'has a query with invalid percent-encoding');
      c = Number.parseInt(digits, 16);
      i += 2;
    } else if (c === 0x2b) {
      c = 0x20;
    }
    const character = String.fromCharCode(c);
    out += /[A-Za-z0-9._~-]/.test(character) ? character : `%${c.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return out;
}
