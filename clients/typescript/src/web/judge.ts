import type { HeaderFields } from '../isr/entry.js';

/**
 * Whether a response may be stored and shared, by RFC 9111, section 3, interpreted strictly: the
 * rules of `isr serve` with its defaults.
 */
export type Verdict =
  /** The renderer failed: a stored page stays valid. `isPersonal`: its error page is for one visitor. */
  | { failed: true; isPersonal: boolean }
  /** `withdraws`: a stored copy must not be served any longer. */
  | { refused: string; withdraws: boolean }
  | { revalidateSeconds: number; staleSeconds: number; tags: string[] };

/** The largest stored header, in bytes: it is part of the META row. */
const maxHeaderBytes = 16 << 10;

/** What a site allows. */
export interface Bounds {
  /** The largest body that is stored, in bytes. */
  maxBodyBytes: number;
  /** The longest stale window and the default of responses that state none, in seconds; 0: what a response states. */
  staleSeconds: number;
}

/** Judges a response by its status and header. */
export function judge(status: number, headers: Headers, { maxBodyBytes, staleSeconds }: Bounds): Verdict {
  const directives = directivesOf(headers);
  if (status >= 500 || status === 408 || status === 425 || status === 429) {
    return { failed: true, isPersonal: directives.malformed || directives.of.has('private') || setsCookie(headers) };
  }
  const reason = refusal(status, headers, directives, maxBodyBytes);
  const withdraws = isWithdrawal(status, headers, directives);
  if (reason) return { refused: reason, withdraws };
  const revalidateSeconds = lifetimeOf(headers, directives) - ageOf(headers);
  if (revalidateSeconds <= 0) return { refused: 'no-freshness', withdraws };
  return { revalidateSeconds, staleSeconds: staleWindow(directives, staleSeconds), tags: tagsOf(headers) };
}

const storable: ReadonlySet<number> = new Set([200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410]);

function refusal(status: number, headers: Headers, d: Directives, maxBody: number): string {
  if (!storable.has(status)) return 'status';
  if (setsCookie(headers)) return 'set-cookie';
  if (d.malformed) return 'malformed';
  for (const name of ['private', 'no-store', 'no-cache']) if (d.of.has(name)) return name;
  if (!varyIsCovered(headers.get('vary'))) return 'vary';
  if (!/^(?:identity)?$/i.test(headers.get('content-encoding') ?? '')) return 'content-encoding';
  if (/^(?:text\/event-stream|multipart\/x-mixed-replace)/i.test(headers.get('content-type') ?? '')) return 'stream';
  if (Number(headers.get('content-length') ?? 0) > maxBody || sizeOf(headers) > maxHeaderBytes) return 'too-large';
  return '';
}

function setsCookie(headers: Headers): boolean {
  return headers.has('set-cookie') || headers.has('set-cookie2');
}

/** The host is in the key, and pages are rendered without codings. */
function varyIsCovered(vary: string | null): boolean {
  return (vary ?? '').split(',').every((name) => /^\s*(?:accept-encoding|host)?\s*$/i.test(name));
}

function sizeOf(headers: Headers): number {
  let n = 0;
  for (const [name, value] of headers) n += name.length + Buffer.byteLength(value);
  return n;
}

/** Reports whether a response ends the stored copy of its page. */
function isWithdrawal(status: number, headers: Headers, d: Directives): boolean {
  if ([301, 302, 303, 307, 308, 401, 403, 404, 410, 451].includes(status)) return true;
  const isPrivate = d.malformed || ['private', 'no-store', 'no-cache'].some((name) => d.of.has(name));
  return status < 400 && (isPrivate || setsCookie(headers));
}

/** The directives for this cache: of CDN-Cache-Control (RFC 9213), else of Cache-Control. */
interface Directives {
  of: ReadonlyMap<string, string>;
  /** An unclosed quoted string may hide directives. */
  malformed: boolean;
}

function directivesOf(headers: Headers): Directives {
  const line = headers.get('cdn-cache-control') ?? headers.get('cache-control') ?? '';
  const of = new Map<string, string>();
  for (const member of membersOf(line)) {
    const [name = '', value = ''] = member.split(/=(.*)/s);
    const key = name.trim().toLowerCase();
    if (key !== '' && !of.has(key)) of.set(key, value.trim().replace(/^"|"$/g, ''));
  }
  return { of, malformed: (line.match(/(?<!\\)"/g)?.length ?? 0) % 2 !== 0 };
}

/** Splits a list field at commas outside of quoted strings. */
function membersOf(line: string): string[] {
  return line.match(/(?:"(?:\\.|[^"\\])*"?|[^,"])+/g) ?? [];
}

/** The largest count of seconds, about 68 years (RFC 9111, section 1.2.2). */
const maxSeconds = 2 ** 31 - 1;

function secondsOf(d: Directives, name: string): number | undefined {
  const text = d.of.get(name);
  if (text === undefined) return undefined;
  return /^\d+$/.test(text) ? Math.min(Number(text), maxSeconds) : 0;
}

function lifetimeOf(headers: Headers, d: Directives): number {
  const stated = secondsOf(d, 's-maxage') ?? secondsOf(d, 'max-age');
  if (stated !== undefined || headers.has('cdn-cache-control')) return stated ?? 0;
  const expires = Date.parse(headers.get('expires') ?? '');
  const date = headers.has('date') ? Date.parse(headers.get('date') ?? '') : Date.now();
  return Number.isFinite(expires - date) ? Math.min(Math.floor((expires - date) / 1000), maxSeconds) : 0;
}

function ageOf(headers: Headers): number {
  const age = headers.get('age') ?? '';
  return /^\d+$/.test(age) ? Math.min(Number(age), maxSeconds) : 0;
}

/**
 * Returns how long a page may be served while it is regenerated (RFC 5861, section 3). `most` bounds it, and is the
 * default; s-maxage forbids it unless `most` is set, and must-revalidate always (RFC 9111, section 5.2.2).
 */
function staleWindow(d: Directives, most: number): number {
  if (d.of.has('must-revalidate') || d.of.has('proxy-revalidate')) return 0;
  if (most === 0) return d.of.has('s-maxage') ? 0 : (secondsOf(d, 'stale-while-revalidate') ?? 0);
  const isOpen = d.of.get('stale-while-revalidate') === ''; // without a value, as Nuxt writes it
  return isOpen ? most : Math.min(secondsOf(d, 'stale-while-revalidate') ?? most, most);
}

/** Returns the purge tags of a response: Surrogate-Key, separated by spaces, and Cache-Tag, by commas. */
function tagsOf(headers: Headers): string[] {
  const all = [
    ...(headers.get('surrogate-key') ?? '').split(/[\s,]+/),
    ...(headers.get('cache-tag') ?? '').split(',').map((tag) => tag.trim()),
  ];
  return [...new Set(all.filter((tag) => tag !== ''))].sort();
}

/** Fields of one connection, one moment or one request, which are not stored (RFC 9111, section 3.1). */
const dropped: ReadonlySet<string> = new Set(
  ['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'te', 'trailer', 'transfer-encoding'].concat(
    ['upgrade', 'age', 'cache-status', 'warning', 'content-length', 'content-encoding', 'etag', 'x-request-id'],
    ['surrogate-control', 'proxy-authentication-info'],
  ),
);

/** Returns the fields of a response that are stored and replayed. */
export function storedFields(headers: Headers): HeaderFields {
  const alsoDropped = (headers.get('connection') ?? '').toLowerCase().split(/\s*,\s*/);
  return Object.fromEntries(
    [...headers]
      .filter(([name]) => !dropped.has(name) && !alsoDropped.includes(name))
      .map(([name, value]) => [name, [value]]),
  );
}
