import { storeMembers } from '../cache/members.js';
import { milliseconds, type StoreOptions, type StoreSettings, storeSettingsOf } from '../cache/settings.js';
import { InvalidInputError } from '../errors.js';
import { canonicalKey } from '../isr/canonicalkey.js';
import { checkOptions, type Members } from '../options.js';
import type { OptIn } from './lifetime.js';

/** The options of a page cache. Every member but `hosts` has a default, some of them from the environment. */
export interface PageCacheOptions extends StoreOptions {
  /**
   * The hosts whose pages are cached, such as `example.com` or `localhost:3000`, 1 to 100. Requests to
   * other hosts pass through: otherwise anyone could fill the table with invented hosts.
   */
  hosts: readonly string[];
  /**
   * The scheme of the site's public URLs, `http` or `https`, for servers behind a proxy that terminates TLS. Renders get
   * it, in their URL and as `X-Forwarded-Proto`, and applications of `node:http` as an encrypted connection. The
   * visitor's own `X-Forwarded-Proto` is not trusted, and visitors of both schemes get the same
   * pages. Default: the scheme of the connection to this server, which is `http` behind such a proxy.
   */
  scheme?: 'http' | 'https';
  /**
   * The query parameters that pages depend on, which are part of the key. A request with another one
   * passes through, except for those that only record where a visitor came from (`utm_source`, `gclid`, …), which
   * spec/requests.json lists. Default: none.
   */
  query?: readonly string[];
  /**
   * The cookies that pages do not depend on, beside the cookies of load balancers, bot management, analytics, advertising,
   * consent banners and chats that spec/requests.json lists; a name may end in `*`, and `*` means all. A name after `!`
   * names a cookie on which pages do depend, whatever else ignores it. A request with another cookie passes through.
   * Default: none.
   */
  ignoreCookies?: readonly string[];

  /**
   * How long after its freshness window a page may be served while it is regenerated, or cannot be, in seconds: at most,
   * and for responses without stale-while-revalidate and stale-if-error. Default: 0, what a response states, unless it has
   * s-maxage.
   */
  staleSeconds?: number;
  /**
   * Which responses state how long they are fresh: `explicit` (s-maxage, max-age, Expires, CDN-Cache-Control) or `strict`
   * (max-age only beside public, and no Expires), as `opt_in` of `isr serve`. Default: `explicit`.
   */
  optIn?: OptIn;
  /**
   * The largest header that is stored, in bytes, where each field counts for its name, its value and 32 bytes; and the bytes
   * of all tags of a page. From 1 KiB to 128 KiB. Default: 64 KiB.
   */
  maxHeaderBytes?: number;
  /** How many purge tags a page may have, at most 2,048. Default: 512. */
  maxTags?: number;
  /** How long this process uses the metadata of a page from memory, in seconds, and so how late it sees purges by others. Default: 1. */
  trustSeconds?: number;
  /** The bodies in memory, in bytes. Default: 64 MiB. */
  memoryBytes?: number;
  /** The largest body that is stored, in bytes, at most 64 MiB. Default: 10 MiB. */
  maxBodyBytes?: number;
  /** The lifetime of a lease, in seconds: how long a crashed process delays the regeneration of a page. Default: 15. */
  leaseSeconds?: number;
  /** How long a render may take, in seconds. Its signal is aborted then. Default: 60. */
  renderSeconds?: number;
  /** How long a visitor waits for a page that another process renders, in seconds; then it is rendered here too. Default: 10. */
  waitSeconds?: number;
}

/** Options with defaults applied. Members ending in `Ms` are in milliseconds. */
export interface Settings extends StoreSettings {
  readonly hosts: ReadonlySet<string>;
  /** Undefined: the scheme of each request. */
  readonly scheme: 'http' | 'https' | undefined;
  readonly query: ReadonlySet<string>;
  readonly ignoreCookies: readonly string[];
  readonly staleSeconds: number;
  readonly staleIfErrorSeconds: number;
  readonly optIn: OptIn;
  readonly maxHeaderBytes: number;
  readonly maxTags: number;
  readonly trustMs: number;
  readonly memoryBytes: number;
  readonly maxBodyBytes: number;
  readonly leaseMs: number;
  readonly renderMs: number;
  readonly waitMs: number;
}

const maxHosts = 100;
const maxMaxTags = 2048;
const mebibyte = 1 << 20;

const members: Members<PageCacheOptions> = {
  ...storeMembers,
  hosts: true,
  scheme: true,
  query: true,
  ignoreCookies: true,
  staleSeconds: true,
  optIn: true,
  maxHeaderBytes: true,
  maxTags: true,
  trustSeconds: true,
  memoryBytes: true,
  maxBodyBytes: true,
  leaseSeconds: true,
  renderSeconds: true,
  waitSeconds: true,
};

/** @throws InvalidInputError InvalidKeyError */
export function settingsOf(o: PageCacheOptions, environment: NodeJS.ProcessEnv): Settings {
  checkOptions('createPageCache', o, members);
  const staleSeconds = milliseconds('staleSeconds', o.staleSeconds ?? 0, 0) / 1000;
  return {
    hosts: hostsOf(o.hosts),
    ...storeSettingsOf(o, { maker: 'createPageCache', warning: 'page cache' }, environment),
    scheme: schemeOf(o.scheme),
    query: new Set(o.query ?? []),
    ignoreCookies: o.ignoreCookies ?? [],
    staleSeconds,
    staleIfErrorSeconds: staleSeconds,
    optIn: optInOf(o.optIn ?? 'explicit'),
    maxHeaderBytes: bytes('maxHeaderBytes', o.maxHeaderBytes ?? 64 << 10, 1 << 10, 128 << 10),
    maxTags: maxTagsOf(o.maxTags ?? 512),
    trustMs: milliseconds('trustSeconds', o.trustSeconds ?? 1, 0),
    memoryBytes: bytes('memoryBytes', o.memoryBytes ?? 64 * mebibyte, 0, 64 * 1024 * mebibyte),
    maxBodyBytes: bytes('maxBodyBytes', o.maxBodyBytes ?? 10 * mebibyte, 1, 64 * mebibyte),
    leaseMs: milliseconds('leaseSeconds', o.leaseSeconds ?? 15, 1),
    renderMs: milliseconds('renderSeconds', o.renderSeconds ?? 60, 1),
    waitMs: milliseconds('waitSeconds', o.waitSeconds ?? 10, 0),
  };
}

function optInOf(optIn: OptIn): OptIn {
  if (optIn === 'explicit' || optIn === 'strict') return optIn;
  throw new InvalidInputError(`optIn must be 'explicit' or 'strict' (got ${JSON.stringify(optIn)})`);
}

function maxTagsOf(n: number): number {
  if (Number.isSafeInteger(n) && n >= 1 && n <= maxMaxTags) return n;
  throw new InvalidInputError(`maxTags must be a whole number from 1 to ${maxMaxTags} (got ${n})`);
}

function hostsOf(hosts: readonly string[] | undefined): ReadonlySet<string> {
  if (!Array.isArray(hosts) || hosts.length === 0 || hosts.length > maxHosts) {
    throw new InvalidInputError(
      `hosts must name 1 to ${maxHosts} hosts, such as ['example.com']: those at which visitors reach the site`,
    );
  }
  return new Set(hosts.map((host) => canonicalKey(`${host}/`).slice(0, -1)));
}

function schemeOf(scheme: unknown): 'http' | 'https' | undefined {
  if (scheme === undefined || scheme === 'http' || scheme === 'https') return scheme;
  throw new InvalidInputError(
    `scheme must be 'http' or 'https', the scheme of the site's public URLs (got ${JSON.stringify(scheme)})`,
  );
}

function bytes(name: string, n: number, least: number, most: number): number {
  if (Number.isSafeInteger(n) && n >= least && n <= most) return n;
  throw new InvalidInputError(`${name} must be a whole number of bytes from ${least} to ${most} (got ${n})`);
}
