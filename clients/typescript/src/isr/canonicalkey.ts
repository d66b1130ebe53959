import { isIPv6 } from 'node:net';

import { InvalidInputError, InvalidKeyError } from '../errors.js';
import { shorten } from '../item.js';
import { checkCacheKey } from './key.js';

/**
 * The canonical text of the key under which `isr serve` keeps the page of a URL
 * (`https://example.com/news?page=2`) or of a key's text, in either case with every
 * query parameter that is written there, and with a variant after `#`: host in lower
 * case without the default port, path in the one percent-encoding of RFC 3986, query
 * sorted by name, no scheme. Which parameters belong to a key is for the route to
 * say: leave out those that it drops.
 * @throws InvalidKeyError if it does not begin with a host name, or is badly encoded, or too long.
 */
export function canonicalKey(url: string): string {
  if (typeof url !== 'string') throw new InvalidInputError(`the URL is of type ${typeof url}: expected a string`);
  const { host, path, query, variant } = split(url.replace(/^https?:\/\//i, ''));
  if (host.endsWith(':') && path.startsWith('//')) refuse(url, 'has another scheme than http and https');
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
 * The one form of a host that keys have: a registered name or an IP address in brackets
 * or dotted, in lower case, without a trailing dot, and with a port (1 to 65535) unless
 * it is the default of either scheme: the key has none.
 */
function canonicalHost(host: string, url: string): string {
  const [, given = '', port = ''] = /^(\[[^\]]*\]|[^:]*)(?::(\d*))?$/.exec(host) ?? [];
  const name = given.startsWith('[') ? given : given.replace(/\.$/, '');
  if (host.length > longestHost || !isHostName(name) || !/^(?:[1-9]\d{0,4})?$/.test(port) || Number(port) > 65535) {
    return refuse(url, 'does not begin with a host name');
  }
  const shown = port === '' || port === '80' || port === '443' ? '' : `:${port}`;
  return name.toLowerCase() + shown;
}

/** The longest host with its port: the longest name that DNS has, and room for a dot and a port. */
const longestHost = 260;

/** Whether it is labels of letters, digits, `-` and `_`, joined by dots, or an IPv6 address in brackets, without a zone. */
function isHostName(name: string): boolean {
  if (name.startsWith('[')) return isIPv6(name.slice(1, -1)) && !name.includes('%');
  return /^[\w-]+(?:\.[\w-]+)*$/.test(name);
}

/** RFC 3986, section 6.2.2: upper-case digits, nothing encoded that need not be. */
function canonicalPath(path: string, url: string): string {
  if (!/^\/(?:[!$&-;=@-[\]_a-z~]|%[0-9A-Fa-f]{2})*$/.test(path)) {
    return refuse(url, "has a path that is not percent-encoded as a URL's");
  }
  return path.replace(/%[0-9A-Fa-f]{2}/g, (encoded) => {
    const c = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
    return /[A-Za-z0-9._~-]/.test(c) ? c : encoded.toUpperCase();
  });
}

/**
 * Percent-encoded, sorted by the bytes of the names. Parameters of one name keep
 * their order, because it may carry meaning to the renderer.
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
  if (part.includes(';')) return refuse(url, 'has a query with a semicolon, at which some servers split it');
  return { name, text: equals < 0 ? name : `${name}=${encode(part.slice(equals + 1), url)}` };
}

/** Decodes to bytes, and encodes all but unreserved characters. */
function encode(s: string, url: string): string {
  let out = '';
  const bytes = Buffer.from(s, 'utf8');
  for (let i = 0; i < bytes.length; i++) {
    let c = bytes[i] as number;
    if (c === 0x25) {
      const digits = bytes.toString('latin1', i + 1, i + 3);
      if (!/^[0-9A-Fa-f]{2}$/.test(digits)) return refuse(url, "has a query that is not percent-encoded as a URL's");
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
