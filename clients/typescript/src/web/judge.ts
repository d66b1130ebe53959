import { type Directives, directivesOf } from './directives.js';
import { hasOnly, initialAgeOf, lifetimeOf, lifetimeOfError, type OptIn, staleFor } from './lifetime.js';
import { tagsOf } from './tags.js';

/**
 * Whether a response may be stored and shared, by RFC 9111, section 3, interpreted strictly: the
 * rules of spec/storable.md, which all languages follow.
 */
export type Verdict =
  /** The renderer failed: a stored page stays valid. `isPersonal`: its error page is for one visitor. */
  | { failed: true; isPersonal: boolean }
  /** `withdraws`: a stored copy must not be served any longer. */
  | { refused: string; withdraws: boolean }
  | { revalidateSeconds: number; staleSeconds: number; tags: string[] };

/** What a site allows. */
export interface Bounds {
  /** The largest body that is stored, in bytes. */
  maxBodyBytes: number;
  /** The longest stale window and the default of responses that state none, in seconds; 0: what a response states. */
  staleSeconds: number;
  /** The same while renders fail. Default: 0. */
  staleIfErrorSeconds?: number;
  /** The largest header that is stored, where each field counts for its name, its value and 32 bytes. Default: 64 KiB. */
  maxHeaderBytes?: number;
  /** How many purge tags a page may have. Default: 512. */
  maxTags?: number;
  /** Which responses state a lifetime. Default: `explicit`. */
  optIn?: OptIn;
}

const defaultMaxHeaderBytes = 64 << 10;
const defaultMaxTags = 512;

/** Judges a response by its status and header. `requestedMs` is when it was requested, for Date and Expires. */
export function judge(status: number, headers: Headers, bounds: Bounds, requestedMs?: number): Verdict {
  const d = directivesOf(headers);
  if (isFailure(status)) return { failed: true, isPersonal: d.malformed || d.of.has('private') || setsCookie(headers) };
  understand(status, d);
  const withdraws = isWithdrawal(status, headers, d);
  const { maxTags = defaultMaxTags, maxHeaderBytes = defaultMaxHeaderBytes, optIn = 'explicit' } = bounds;
  const tags = tagsOf(headers, { maxTags, maxBytes: maxHeaderBytes });
  const reason = refusal(status, headers, d, { ...bounds, maxHeaderBytes });
  // Tags that are too many are what makes a header too large.
  if (reason.endsWith('too-large') && !tags) return { refused: 'tags', withdraws };
  if (reason) return { refused: reason, withdraws };
  const stated = lifetimeOf(headers, d, optIn, requestedMs) ?? 0;
  const lifetime = status < 400 ? stated : lifetimeOfError(headers, d, stated, requestedMs);
  const fresh = lifetime - initialAgeOf(headers, requestedMs);
  if (fresh <= 0) return { refused: stated > 0 ? 'too-old' : 'no-freshness', withdraws };
  if (!tags) return { refused: 'tags', withdraws };
  const { staleSeconds } = bounds;
  return {
    revalidateSeconds: Math.max(1, Math.floor(fresh)),
    staleSeconds: staleFor(d, 'stale-while-revalidate', staleSeconds, staleSeconds > 0),
    tags,
  };
}

/** Reports whether a response ends the stored copy of its page. */
export function withdraws(status: number, headers: Headers): boolean {
  const d = directivesOf(headers);
  understand(status, d);
  return !isFailure(status) && isWithdrawal(status, headers, d);
}

/** Returns for how many seconds after its freshness window a stored response may be served while renders fail. */
export function staleIfErrorOf(headers: Headers, { staleSeconds, staleIfErrorSeconds = 0 }: Bounds): number {
  const isAllowed = staleSeconds > 0 || staleIfErrorSeconds > 0;
  return staleFor(directivesOf(headers), 'stale-if-error', staleIfErrorSeconds, isAllowed);
}

/**
 * Reports whether a stored response whose freshness a purge has ended early may be served while renders fail: its renderer
 * still calls it fresh.
 */
export function allowsOnError(headers: Headers): boolean {
  const { of } = directivesOf(headers);
  return !of.has('must-revalidate') && !of.has('proxy-revalidate');
}

function isFailure(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429;
}

const storable: ReadonlySet<number> = new Set([200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410]);
/** Further registered statuses with the same meaning for all visitors (RFC 9111, section 3): here only statuses below 400 matter. */
const understood: ReadonlySet<number> = new Set([...storable, 201, 202, 205, 207, 208, 226, 305]);

/** Removes a no-store that does not count beside must-understand (RFC 9111, section 5.2.2.3). */
function understand(status: number, d: Directives): void {
  if (d.of.has('must-understand') && understood.has(status)) d.of.delete('no-store');
}

function refusal(
  status: number,
  headers: Headers,
  d: Directives,
  { maxBodyBytes, maxHeaderBytes }: { maxBodyBytes: number; maxHeaderBytes: number },
): string {
  if (!storable.has(status)) return 'status';
  if (setsCookie(headers)) return 'set-cookie';
  if (d.malformed) return 'malformed';
  for (const name of ['private', 'no-store', 'no-cache']) if (d.of.has(name)) return name;
  if (!hasOnly(headers.get('vary'), ['accept-encoding', 'host'])) return 'vary'; // the key has no other header
  if (!hasOnly(headers.get('content-encoding'), ['identity'])) return 'content-encoding';
  if (/^(?:text\/event-stream|multipart\/x-mixed-replace)/i.test(headers.get('content-type') ?? '')) return 'stream';
  if (declaredLength(headers) > maxBodyBytes) return 'too-large';
  return sizeOf(headers) > maxHeaderBytes ? 'header-too-large' : '';
}

function setsCookie(headers: Headers): boolean {
  return headers.has('set-cookie') || headers.has('set-cookie2');
}

/** Returns Content-Length, -1 if there is none, or an invalid one. */
function declaredLength(headers: Headers): number {
  const text = headers.get('content-length') ?? '';
  return /^[0-9]+$/.test(text) ? Number(text) : -1;
}

/** Returns the size of a header (RFC 9113, section 6.5.2). Each character of a value is a byte. */
function sizeOf(headers: Headers): number {
  let n = 0;
  for (const [name, value] of headers) n += name.length + value.length + 32;
  return n;
}

const withdrawing: ReadonlySet<number> = new Set([301, 302, 303, 307, 308, 401, 403, 404, 410, 451]);

function isWithdrawal(status: number, headers: Headers, d: Directives): boolean {
  if (withdrawing.has(status)) return true;
  const isPrivate = d.malformed || ['private', 'no-store', 'no-cache'].some((name) => d.of.has(name));
  return status < 400 && (isPrivate || setsCookie(headers));
}
