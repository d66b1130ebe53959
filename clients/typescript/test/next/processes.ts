/** Handlers of several processes on a real table and a real bucket, with a clock that tests advance. */

import { randomUUID } from 'node:crypto';
import { createServer, get, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { inspect } from 'node:util';

import { type Clock, systemClock } from '../../src/clock.js';
import type { Answer, CacheHandler, GetContext, Value } from '../../src/next/contract.js';
import { createCacheHandler } from '../../src/next/handler.js';
import type { CacheHandlerOptions } from '../../src/next/options.js';
import { type Cleanup, type Engine, engines, noEngine, onEngines, type TestTable } from '../engines.js';
import { newBucket, noBucket, type TestBucket } from './stores.js';

const missing = noBucket ?? (engines().length === 0 ? noEngine : undefined);

/** A wall clock that only a test advances. Waiting is real, advances the monotonic clock, and ends with the test. */
export interface Watch extends Clock {
  advance(ms: number): void;
}

function newWatch(t: Cleanup): Watch {
  const real = systemClock();
  const begin = real.now();
  const over = new AbortController();
  t.after(() => over.abort());
  let ahead = 0;
  return {
    now: () => begin + ahead,
    elapsed: () => real.elapsed() + ahead,
    sleep: (ms, signal) => real.sleep(ms, signal ? AbortSignal.any([signal, over.signal]) : over.signal),
    advance: (ms) => {
      ahead += ms;
    },
  };
}

/** Begins a request to a server of this process, which is answered at the end of the test, and returns its headers. */
async function newVisit(t: Cleanup): Promise<IncomingHttpHeaders> {
  const server = createServer();
  const asked = new Promise<IncomingHttpHeaders>((resolve) =>
    server.once('request', ({ headers }) => resolve(headers)),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  get({ host: '127.0.0.1', port, headers: { 'x-visit': randomUUID() } }).on('error', () => {});
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return asked;
}

/** The handler class of one process; each request gets its own handler. */
export interface Process {
  request(headers?: Record<string, string>): CacheHandler;
}

export interface Setting {
  table: TestTable;
  bucket: TestBucket;
  watch: Watch;
  /** Starts a process; `serverDistDir` is its build's folder, if it has one. */
  start(options?: CacheHandlerOptions, serverDistDir?: string): Process;
  /** Next.js's interpretation of an answer: see IncrementalCache.get of Next.js 16. */
  verdict(answer: Answer | null): 'missing' | 'blocking' | 'stale' | 'fresh';
}

/**
 * Defines a test on each engine. Tests of thousands of rows run on the first one alone: the tests of localdynamo compare
 * it with the other one, which needs a minute of both processors for each such test.
 */
export function onStores(
  name: string,
  body: (s: Setting, t: TestContext) => Promise<void>,
  on: readonly Engine[] = engines(),
): void {
  if (missing) {
    test(name, { skip: missing });
    return;
  }
  const onEngine = async (table: TestTable, t: TestContext) => {
    const bucket = await newBucket(t);
    const visit = await newVisit(t);
    const watch = newWatch(t);
    const start = (options: CacheHandlerOptions = {}, serverDistDir?: string): Process => {
      const Handler = createCacheHandler({
        tableName: table.tableName,
        bucket: bucket.name,
        ddb: table.ddb,
        s3: bucket.s3,
        buildId: 'build-1',
        clock: watch,
        // On a busy machine a call takes seconds.
        callSeconds: 60,
        leaseSeconds: 60,
        renderSeconds: 120,
        waitSeconds: 60,
        outageSeconds: 60,
        warn: (message, details) => t.diagnostic(`${message}: ${inspect(details)}`),
        ...options,
      });
      const build = serverDistDir === undefined ? {} : { serverDistDir };
      return {
        request: (headers = {}) =>
          new Handler({ ...build, _requestHeaders: { ...visit, ...headers }, maxMemoryCacheSize: 1 << 20 }),
      };
    };
    const verdict: Setting['verdict'] = (answer) => {
      if (!answer) return 'missing';
      if (answer.lastModified === -1) return 'blocking';
      const { revalidate = false, expire } = answer.cacheControl ?? {};
      if (expire !== undefined && answer.lastModified + expire * 1000 < watch.now()) return 'blocking';
      return revalidate !== false && answer.lastModified + revalidate * 1000 < watch.now() ? 'stale' : 'fresh';
    };
    await body({ table, bucket, watch, start, verdict }, t);
  };
  onEngines(name, onEngine, {}, on);
}

/** The engines on which tests of thousands of rows run. */
export const firstEngine: readonly Engine[] = engines().slice(0, 1);

export const pageContext: GetContext = { kind: 'APP_PAGE' };
export const minute = { cacheControl: { revalidate: 60, expire: 3600 } };

export function page(html: string, ...tags: string[]): Value {
  return { kind: 'APP_PAGE', html, status: 200, headers: { 'x-next-cache-tags': tags.join(',') } };
}

export function fetched(body: string): Value {
  return { kind: 'FETCH', data: { headers: {}, body, status: 200, url: 'http://x/' }, revalidate: 60 };
}

/** Looks up and sets a page, as Next.js does when it renders. */
export async function make(process: Process, key: string, value: Value): Promise<CacheHandler> {
  const request = process.request();
  await request.get(key, pageContext);
  await request.set(key, value, minute);
  return request;
}

export function html(answer: Answer | null): unknown {
  return answer?.value?.['html'];
}
