import type { Entry } from '../isr/entry.js';
import { ageSeconds, freshUntilMs } from '../isr/freshness.js';
import { bytesOf, replayedFields } from './storedfields.js';

/** A response before it is adapted to a visitor's request: to its method and its conditions. */
export interface Answer {
  status: number;
  headers: Headers;
  /** A stream can be sent to one visitor only. */
  body: Uint8Array | ReadableStream<Uint8Array> | null;
}

/** How a page was found, for Cache-Status (RFC 9211). */
export type How = 'hit' | 'stale' | 'stored' | 'missing' | 'negative';

/** The name of this cache in Cache-Status. */
const cacheName = 'isr';

/** Returns the answer that a stored page is. */
export function answerOf(entry: Entry, body: Uint8Array, how: How, nowMs: number): Answer {
  const headers = replayedFields(entry);
  headers.set('etag', bytesOf(entry.etag ?? `"${entry.contentSha256.slice(0, 32)}"`));
  headers.set('age', String(ageSeconds(entry, nowMs)));
  const ttl = Math.ceil((freshUntilMs(entry) - nowMs) / 1000);
  const found = {
    hit: `hit; ttl=${ttl}`,
    stale: `hit; ttl=${ttl}; detail=stale`,
    stored: 'fwd=miss; stored',
    missing: 'fwd=miss; detail=negative',
    negative: `hit; ttl=${ttl}; detail=negative`,
  }[how];
  headers.append('cache-status', `${cacheName}; ${found}`);
  return { status: entry.status, headers, body: isBodiless(entry.status) ? null : body };
}

/** Returns the answer of a response that is not stored, with its body as far as it was read. */
export function unstored(response: Response, body: Answer['body'], detail: string): Answer {
  const headers = new Headers(response.headers);
  headers.append('cache-status', `${cacheName}; fwd=miss; detail=${detail}`);
  return { status: response.status, headers, body: isBodiless(response.status) ? null : body };
}

/** Returns the answer for a failed render whose own error page is for another visitor. */
export function plainFailure(response: Response, detail: string): Answer {
  const { status } = response;
  const headers = new Headers({ 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
  const retryAfter = response.headers.get('retry-after');
  if (retryAfter !== null) headers.set('retry-after', retryAfter);
  headers.set('cache-status', `${cacheName}; fwd=miss; detail=${detail}`);
  return { status, headers, body: Buffer.from(`The page could not be rendered (status ${status}).\n`) };
}

/** Returns Cache-Status for a request that passed through: RFC 9211 has a value for its method, and for no other reason. */
export function passedBecause(reason: string): string {
  return `${cacheName}; ${reason === 'method' ? 'fwd=method' : `fwd=bypass; detail=${reason}`}`;
}

/** Marks the response to a request that passed through. */
export function bypassed(response: Response, reason: string): Response {
  const headers = new Headers(response.headers);
  headers.append('cache-status', passedBecause(reason));
  const { status, statusText, body } = response;
  return new Response(body, { status, statusText, headers });
}

/** Returns the response to a visitor's request. */
export function forVisitor(request: Request, { status, headers: fields, body }: Answer): Response {
  const headers = new Headers(fields);
  if (status === 200 && isUnchanged(request.headers, headers)) {
    for (const name of ['content-type', 'content-length']) headers.delete(name);
    return new Response(null, { status: 304, headers });
  }
  if (body instanceof Uint8Array) headers.set('content-length', String(body.byteLength));
  return new Response(request.method === 'HEAD' ? null : (body as ConstructorParameters<typeof Response>[0]), {
    status,
    headers,
  });
}

/** RFC 9110, section 13.1: If-None-Match by weak comparison, else If-Modified-Since. */
function isUnchanged(request: Headers, response: Headers): boolean {
  const tags = request.get('if-none-match');
  if (tags !== null) {
    const own = opaque(response.get('etag') ?? '');
    return tags.trim() === '*' || tags.split(',').some((tag) => opaque(tag) === own);
  }
  const since = Date.parse(request.get('if-modified-since') ?? '');
  return Date.parse(response.get('last-modified') ?? '') <= since;
}

function opaque(tag: string): string {
  return tag.trim().replace(/^W\//, '');
}

function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}

/**
 * Reads the body of a response, at most `most` bytes. A longer one is returned as a stream: what was read,
 * and then the rest.
 */
export async function readBody(response: Response, most: number): Promise<Uint8Array | ReadableStream<Uint8Array>> {
  const reader = response.body?.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    chunks.push(read.value);
    length += read.value.byteLength;
    if (length > most && reader) return resumed(chunks, reader);
  }
  return Buffer.concat(chunks, length);
}

function resumed(chunks: Uint8Array[], reader: ReadableStreamDefaultReader<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const next = chunks.shift();
      if (next) return controller.enqueue(next);
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
