/** {@link PageCache} for servers of `node:http`, and with them Express and Fastify. */

import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestListener,
  request,
  type ServerResponse,
} from 'node:http';
import { duplexPair, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { passedBecause } from './answer.js';
import { delayResponse } from './delay.js';
import type { PageCache, Render } from './pagecache.js';
import { isSafe } from './projection.js';

export * from './index.js';

/**
 * Puts a cache in front of an application, which gets requests that pass through unchanged:
 *
 *	createServer(nodeHandler(cache, expressApp))
 *	Fastify({ serverFactory: (handler) => createServer(nodeHandler(cache, handler)) })
 *
 * Pages are rendered by requests without the headers of a visitor and without a remote address. The answer to a request
 * that changes a page (POST, …) is sent when that page is purged, see {@link PageCache.invalidate}.
 */
export function nodeHandler(cache: PageCache, app: RequestListener): RequestListener {
  const render = renderer(app);
  const pass = (req: IncomingMessage, res: ServerResponse, reason: string) => {
    res.appendHeader('Cache-Status', passedBecause(reason));
    invalidating(cache, req, res);
    app(req, res);
  };
  return (req, res) => {
    const asked = requestOf(req);
    if (!asked) return pass(req, res, unaskable(req));
    const reason = cache.bypassReason(asked);
    if (reason !== undefined) return pass(req, res, reason);
    cache
      .handle(asked, render)
      .then((response) => write(res, response))
      .catch((error: unknown) => fail(res, error));
  };
}

/** The fields of a response that name pages which an unsafe request has changed. */
const references = ['location', 'content-location'];

/** Lets a response to an unsafe request wait for the purge of what it has changed. */
function invalidating(cache: PageCache, req: IncomingMessage, res: ServerResponse): void {
  const { method = 'GET' } = req;
  const url = isSafe(method) ? undefined : urlOf(req);
  if (url === undefined) return;
  delayResponse(res, references, (status, headers) => cache.invalidate({ method, url }, { status, headers }));
}

/** Returns a request without a body; undefined for one that is none of a page, or has no valid URL. */
function requestOf(req: IncomingMessage): Request | undefined {
  const { method, headers } = req;
  if ((method !== 'GET' && method !== 'HEAD') || !req.url?.startsWith('/') || hasBody(headers)) return undefined;
  const url = urlOf(req);
  try {
    return url === undefined ? undefined : new Request(url, { method, headers: fieldsOf(req) });
  } catch {
    return undefined; // the application decides what to do with it
  }
}

/** Returns the URL of a request, also of one in absolute form (RFC 9112, section 3.2.2); undefined if it has no valid one. */
function urlOf({ url = '', headers, socket }: IncomingMessage): string | undefined {
  const scheme = 'encrypted' in socket ? 'https' : 'http';
  const text = url.startsWith('/') ? `${scheme}://${headers.host}${url}` : url;
  return URL.canParse(text) ? text : undefined;
}

/** Returns why {@link requestOf} has no result. */
function unaskable({ method, headers }: IncomingMessage): string {
  if (method !== 'GET' && method !== 'HEAD') return 'method';
  return hasBody(headers) ? 'body' : 'host';
}

function hasBody(headers: IncomingHttpHeaders): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

function fieldsOf({ rawHeaders }: IncomingMessage): [string, string][] {
  const fields: [string, string][] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) fields.push([rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '']);
  return fields;
}

/** Returns a renderer that calls an application, by HTTP on a stream within the process. */
function renderer(app: RequestListener): Render {
  const server = createServer(app);
  return (asked) =>
    new Promise((resolve, reject) => {
      const [near, far] = duplexPair();
      far.once('close', () => near.destroy()); // a pair does not do so by itself
      near.once('close', () => far.destroy());
      const { pathname, search, host, protocol } = new URL(asked.url);
      if (protocol === 'https:') Object.assign(far, { encrypted: true }); // as a TLS socket has it, which frameworks ask
      const headers = { ...Object.fromEntries(asked.headers), host };
      server.emit('connection', far);
      const { method, signal } = asked;
      request({ createConnection: () => near, method, path: pathname + search, headers, signal })
        .on('response', (answer) => resolve(responseOf(answer)))
        .on('error', reject)
        .end();
    });
}

/** Fields of the connection to the application. */
const perConnection: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding']);

function responseOf(answer: IncomingMessage): Response {
  const headers = new Headers();
  for (const [name, lines = []] of Object.entries(answer.headersDistinct)) {
    if (perConnection.has(name)) continue;
    for (const line of lines) headers.append(name, line);
  }
  const status = answer.statusCode ?? 500;
  if (status !== 204 && status !== 304)
    return new Response(Readable.toWeb(answer) as ReadableStream, { status, headers });
  answer.resume();
  return new Response(null, { status, headers });
}

async function write(res: ServerResponse, response: Response): Promise<void> {
  res.statusCode = response.status;
  for (const [name, value] of response.headers) {
    if (name !== 'set-cookie') res.setHeader(name, value);
  }
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) res.setHeader('set-cookie', cookies);
  if (response.body === null) res.end();
  else await pipeline(Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]), res);
}

/** Answers a visitor whose page failed to render. If the response has begun, or the visitor has left, its connection is closed. */
function fail(res: ServerResponse, error: unknown): void {
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  console.error('page cache: a page failed to render', error);
  res.writeHead(500, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
  res.end('Internal Server Error\n');
}
