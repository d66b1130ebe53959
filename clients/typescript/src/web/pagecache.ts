import { Bodies, type Described, sha256 } from '../cache/bodies.js';
import type { CircuitBreaker } from '../cache/breaker.js';
import { LruCache } from '../cache/lru.js';
import { PurgeMarks } from '../cache/purgemarks.js';
import { storesOf } from '../cache/stores.js';
import { LeaseHeldError } from '../errors.js';
import { randomText } from '../isr/backend.js';
import type { Entry, NextEntry, PurgeState } from '../isr/entry.js';
import { freshness, freshUntilMs, mergePurgeStates, type State, servableOnFailure } from '../isr/freshness.js';
import { generationId as newGenerationId } from '../isr/generationid.js';
import type { Lease } from '../isr/lease.js';
import { isBackingOff } from '../isr/lockrow.js';
import { normalize } from '../isr/normalize.js';
import type { PurgeOptions, Receipt } from '../isr/purge.js';
import type { PurgeTarget } from '../isr/purgetarget.js';
import type { PageRecord } from '../isr/record.js';
import type { FaceTheoryIsrMetaStore } from '../isr/store.js';
import { type Answer, answerOf, bypassed, forVisitor, type How, plainFailure, readBody, unstored } from './answer.js';
import { Deadline } from './deadline.js';
import { Invalidations } from './invalidate.js';
import { allowsOnError, judge, staleIfErrorOf, type Verdict, withdraws } from './judge.js';
import { initialAgeOf } from './lifetime.js';
import { type PageCacheOptions, type Settings, settingsOf } from './options.js';
import { changedKeys, isSafe, isSelected, keyOfReference, type Projection, project } from './projection.js';
import { etagOf, fieldsOf, storedFields } from './storedfields.js';

/** Renders the response to a request, whose signal is aborted if the render takes too long, or its lease is lost. */
export type Render = (request: Request) => Response | Promise<Response>;

/** A page as it is stored, with its body. */
interface Page {
  entry: Entry;
  body: Uint8Array;
  /** Only this process has it. */
  isUnstored?: boolean;
}

/** The result of a search. A visitor without an answer sends their own request. */
interface Found {
  /** For the visitor who caused the search. */
  answer: Answer | undefined;
  /** For visitors who waited for it: nothing that is personal to one visitor. */
  others: Answer | undefined;
}

/** How many pages' metadata, and how many uncacheable pages, are remembered. */
const maxRecords = 10_000;
/** How long a page whose response must not be stored passes through without a lease, in milliseconds. */
const uncacheableMs = 30_000;
/** The shortest and the longest pause between looks at a page that another process renders, in milliseconds. */
const minPollMs = 50;
const maxPollMs = 500;
/** The first and the longest back-off after failed renders, in milliseconds. */
const firstBackOffMs = 3_000;
const maxBackOffMs = 300_000;
/** How long a missing page that is not stored is kept in memory, in seconds, and what its entry takes, in bytes, estimated. */
const maxMissingSeconds = 300;
const entryBytes = 2_048;
const daySeconds = 24 * 3600;
/** When a record was read that is of use only while the stores do not answer, on the monotonic clock. */
const unread = Number.NEGATIVE_INFINITY;
/** Why a redirect to the page's own key is refused; another visitor's spelling of the URL may be the one it leads to. */
const selfRedirect = 'self-redirect';

/**
 * A cache in front of a renderer, in its process: pages are stored in a table and a bucket that all
 * processes share, each is rendered once per expiry by one of them, and a purge takes effect on all.
 * `isr serve` and the other clients can use the same pages.
 *
 *	request ──► project ──► bypass ─────────────────────────────► render, as without a cache
 *	               │
 *	               └► key ──► fresh ──► served from memory, or the bucket
 *	                          stale ──► served, and the holder of the lease renders in the background
 *	                          missing ► the holder of the lease renders, others wait
 *
 * All methods are safe for concurrent use.
 */
export class PageCache {
  readonly #settings: Settings;
  readonly #store: FaceTheoryIsrMetaStore;
  readonly #marks: PurgeMarks;
  readonly #bodies: Bodies;
  readonly #breaker: CircuitBreaker;
  readonly #inMemory: LruCache<Uint8Array>;
  /** 404s and 410s of pages that are not stored, by cache key. */
  readonly #missing: LruCache<Page>;
  readonly #records = new LruCache<{ record: PageRecord; readAt: number }>(maxRecords);
  /** Until when pages are known to be uncacheable, on the monotonic clock. */
  readonly #uncacheable = new LruCache<number>(maxRecords);
  /** The searches in progress: at most one per request in progress. */
  readonly #searches = new Set<Promise<Found>>();
  /** Those that further visitors join, by cache key. */
  readonly #joinable = new Map<string, Promise<Found>>();
  readonly #invalidations: Invalidations;
  /** How many purges this process has made: a read that began before one is not kept. */
  #purges = 0;
  #marksAt = Number.NEGATIVE_INFINITY;

  /** @throws InvalidInputError InvalidKeyError for an invalid option, or a missing table or bucket */
  constructor(options: PageCacheOptions) {
    const s = settingsOf(options, process.env);
    const { backend, store, bodies, breaker } = storesOf(s);
    this.#settings = s;
    this.#store = store;
    this.#marks = new PurgeMarks(backend, s.tenant);
    this.#bodies = bodies;
    this.#breaker = breaker;
    this.#inMemory = new LruCache(s.memoryBytes);
    this.#missing = new LruCache(s.memoryBytes / 8);
    const drop = (cacheKey: string) => this.#drop(cacheKey);
    this.#invalidations = new Invalidations({ ...s, store, breaker, waitMs: s.callMs, drop });
  }

  /**
   * Wraps a renderer, such as the `fetch` of a Hono app, or a handler of `Bun.serve` or `Deno.serve`. Errors of the
   * renderer are passed on unless a stale page may be served.
   */
  wrap(render: Render): (request: Request) => Promise<Response> {
    return (request) => this.handle(request, render);
  }

  /** Returns why a request passes through, as the detail of Cache-Status; undefined if {@link handle} looks for a page. */
  bypassReason(request: Request): string | undefined {
    const p = this.#project(request);
    return 'bypass' in p ? p.bypass : undefined;
  }

  #project(request: Request): Projection {
    const p = project(request, this.#settings);
    if ('bypass' in p || (this.#uncacheable.get(p.cacheKey) ?? 0) <= this.#settings.clock.elapsed()) return p;
    return { bypass: 'uncacheable' };
  }

  /** Answers one request. */
  async handle(request: Request, render: Render): Promise<Response> {
    const p = this.#project(request);
    if ('bypass' in p) {
      const response = await render(request);
      await this.invalidate(request, response);
      return bypassed(response, p.bypass);
    }
    const { cacheKey, rendered } = p;
    const known = await this.#breaker.call('a look-up', () => this.#look(cacheKey));
    if (known?.page && known.state === 'fresh') return this.#serve(request, render, this.#answer(known.page, 'hit'));
    const last = known ? undefined : this.#lastKnown(cacheKey);
    if (last) return this.#serve(request, render, this.#answer(last, 'stale'));
    const isSearching = this.#joinable.has(cacheKey);
    const search = this.#joinable.get(cacheKey) ?? this.#begin(cacheKey, rendered, render);
    if (known?.page && known.state === 'stale') {
      search.then(
        ({ answer }) => isSearching || discard(answer),
        (failure: unknown) => this.#settings.warn('a regeneration failed', { cacheKey, failure }),
      );
      return this.#serve(request, render, this.#answer(known.page, 'stale'));
    }
    const found = await search;
    return this.#serve(request, render, isSearching ? found.others : found.answer);
  }

  /** Answers a visitor, whose own request is sent if there is no answer, or one for other headers of a request. */
  async #serve(request: Request, render: Render, answer: Answer | undefined): Promise<Response> {
    if (answer && isSelected(request.headers, answer.headers)) {
      const response = forVisitor(request, answer);
      if (response.body === null) discard(answer);
      return response;
    }
    discard(answer);
    return bypassed(await render(request), answer ? 'vary' : 'uncacheable');
  }

  /**
   * Purges, hard and for all processes, the stored pages that a successful response to an unsafe request (POST, PUT, PATCH,
   * DELETE, an unknown method) has changed: the pages of its URL, Location and Content-Location at the same host
   * (RFC 9111, section 4.4). Other responses have no effect. {@link handle} and {@link nodeHandler} do it; call it in an
   * adapter of your own before the visitor gets the response. A pinned page stays.
   *
   * Resolves when the pages are purged, after `callSeconds` at the latest, or at once if they were purged within sixteen
   * times their render time (1 s to 1 min): then they are purged again at the end of that time, once for all requests.
   */
  async invalidate(
    { method, url }: Pick<Request, 'method' | 'url'>,
    response: Pick<Response, 'status' | 'headers'>,
  ): Promise<void> {
    if (isSafe(method) || response.status < 200 || response.status > 399) return;
    const keys = changedKeys(url, response.headers, this.#settings);
    if (keys.length > 0) await this.#invalidations.add(keys);
  }

  /**
   * Purges pages, for all processes, as {@link IsrMetaStore.purge} does. {@link canonicalKey} makes the keys of
   * pages; `Cache-Tag` and `Surrogate-Key` in their responses are their tags.
   */
  async purge(targets: readonly PurgeTarget[], options?: PurgeOptions): Promise<Receipt> {
    try {
      return await this.#store.purge(targets, options);
    } finally {
      this.#purges++;
      this.#records.clear();
      if (options?.hard) this.#joinable.clear(); // their renders may be older
      this.#marksAt = Number.NEGATIVE_INFINITY;
    }
  }

  /**
   * Waits until the regenerations in progress have ended, and makes the purges that wait: call it at shutdown, when no
   * requests come any more.
   */
  async close(): Promise<void> {
    await this.#invalidations.close();
    while (this.#searches.size > 0) await Promise.allSettled(this.#searches);
  }

  /** Forgets what this process knows of a page that has changed. A render that has begun is not for visitors to come. */
  #drop(cacheKey: string): void {
    this.#purges++;
    this.#records.delete(cacheKey);
    this.#uncacheable.delete(cacheKey);
    this.#missing.delete(cacheKey);
    this.#joinable.delete(cacheKey);
  }

  #begin(cacheKey: string, rendered: Request, render: Render): Promise<Found> {
    const search = this.#search(cacheKey, rendered, render).finally(() => {
      this.#searches.delete(search);
      if (this.#joinable.get(cacheKey) === search) this.#joinable.delete(cacheKey);
    });
    this.#searches.add(search);
    this.#joinable.set(cacheKey, search);
    return search;
  }

  /** Reads a page: its metadata, the purges that cover it, and, if it may be served, its body. */
  async #look(cacheKey: string, now = false): Promise<{ page?: Page; state: State; record: PageRecord }> {
    const [record] = await Promise.all([this.#record(cacheKey, now), this.#catchUp(now)]);
    return this.#judge(cacheKey, record);
  }

  async #judge(cacheKey: string, record: PageRecord): Promise<{ page?: Page; state: State; record: PageRecord }> {
    const missing = record.entry ? undefined : this.#missing.get(cacheKey);
    const entry = record.entry ?? missing?.entry;
    if (!entry || entry.foreign) return { state: 'missing', record };
    const now = this.#settings.clock.now();
    const cover = this.#coverOf(cacheKey, record, entry, now);
    const state = freshness(entry, cover, now);
    const isServable = state === 'fresh' || servableOnFailure(this.#withLongestWindow(entry, now), cover, now);
    if (!isServable) return { state, record };
    if (missing) return { page: missing, state, record };
    const body = await this.#body(entry);
    return body ? { page: { entry, body }, state, record } : { state: 'missing', record };
  }

  /**
   * Returns an entry with the window in which it is served while renders fail: its stale window, or its stale-if-error.
   * What ends its freshness window early, a soft purge or a newer build, does not end this.
   */
  #withLongestWindow(entry: Entry, nowMs: number): Entry {
    const headers = fieldsOf(entry);
    const staleSeconds = Math.max(entry.staleSeconds, staleIfErrorOf(headers, this.#settings));
    const endedEarly = staleSeconds === 0 && nowMs < freshUntilMs(entry) && allowsOnError(headers);
    return { ...entry, staleSeconds: endedEarly ? 1 : staleSeconds };
  }

  #coverOf(cacheKey: string, record: PageRecord, entry: Entry, nowMs: number): PurgeState {
    return mergePurgeStates(record.purge, this.#marks.purgeStateOf(cacheKey, entry.tags, nowMs));
  }

  /**
   * Returns a page that this process has seen before, while the stores do not answer: within its windows,
   * and if its body is in memory. Others may have purged it since.
   */
  #lastKnown(cacheKey: string): Page | undefined {
    const record = this.#records.get(cacheKey)?.record;
    const entry = record?.entry;
    const body = entry && this.#inMemory.get(entry.htmlPointer);
    if (!body || entry.foreign) return undefined;
    const now = this.#settings.clock.now();
    const state = freshness(entry, this.#coverOf(cacheKey, record, entry, now), now);
    return state === 'fresh' || state === 'stale' ? { entry, body } : undefined;
  }

  async #record(cacheKey: string, now: boolean): Promise<PageRecord> {
    const readAt = this.#settings.clock.elapsed();
    const known = this.#records.get(cacheKey);
    if (!now && known && readAt - known.readAt < this.#settings.trustMs) return known.record;
    const purges = this.#purges;
    const record = await this.#store.read({ cacheKey });
    if (purges === this.#purges) this.#records.set(cacheKey, { record, readAt }, 1);
    return record;
  }

  async #catchUp(now: boolean): Promise<void> {
    const startedAt = this.#settings.clock.elapsed();
    if (!now && startedAt - this.#marksAt < this.#settings.trustMs) return;
    await this.#marks.catchUp();
    this.#marksAt = startedAt;
  }

  async #body(entry: Entry): Promise<Uint8Array | undefined> {
    const known = this.#inMemory.get(entry.htmlPointer);
    if (known) return known;
    const body = await this.#bodies.get(entry);
    if (body) this.#inMemory.set(entry.htmlPointer, body, body.byteLength);
    return body;
  }

  /** Finds a page that may be served: renders it under the lease, or waits for the process that has the lease. */
  async #search(cacheKey: string, rendered: Request, render: Render): Promise<Found> {
    const { clock, waitMs } = this.#settings;
    const until = clock.elapsed() + waitMs;
    for (let poll = 0; ; poll++) {
      const found = await this.#attempt(cacheKey, rendered, render);
      if (found === undefined) return this.#withoutStoring(rendered, render, 'store-unavailable');
      if (found !== 'held') return found;
      const left = until - clock.elapsed();
      if (left <= 0) return this.#withoutStoring(rendered, render, 'lease-held');
      await clock.sleep(Math.min(minPollMs * 2 ** poll * (0.5 + Math.random()), maxPollMs, left), undefined);
      const seen = await this.#breaker.call('a look-up', () => this.#look(cacheKey, true));
      if (seen?.page && seen.state === 'fresh') return this.#sharing(seen.page, 'hit');
      if (!seen || !isBackingOff(seen.record.lock, clock.now())) continue;
      return seen.page ? this.#sharing(seen.page, 'stale') : this.#withoutStoring(rendered, render, 'back-off');
    }
  }

  /** Renders the page under its lease; "held" if another process has the lease, undefined in an outage of the stores. */
  async #attempt(cacheKey: string, rendered: Request, render: Render): Promise<Found | 'held' | undefined> {
    let outcome: { found: Found } | { failure: unknown } | undefined;
    const result = await this.#breaker.call('regenerating a page', async (answered) => {
      try {
        await this.#store.withLease({ cacheKey, leaseDurationMs: this.#settings.leaseMs }, async (lease, signal) => {
          answered(); // before the render, which makes calls of its own
          outcome = await this.#leased(lease, signal, rendered, render).then(
            (found) => ({ found }),
            (failure: unknown) => ({ failure }),
          );
        });
      } catch (error) {
        if (error instanceof LeaseHeldError) return 'held';
        if (!outcome) throw error;
        this.#settings.warn('a lease was lost or could not be released', { cacheKey, failure: error });
      }
      return outcome;
    });
    if (result === 'held') return result;
    if (result && 'failure' in result) throw result.failure;
    return result?.found;
  }

  async #leased(lease: Lease, signal: AbortSignal, rendered: Request, render: Render): Promise<Found> {
    const { cacheKey, record } = lease;
    const before = await this.#breaker.call('a look-up', async () => {
      await this.#catchUp(true);
      return this.#judge(cacheKey, record);
    });
    if (before?.page && before.state === 'fresh') return this.#sharing(before.page, 'hit'); // another was faster
    const startedAt = this.#settings.clock.now();
    const purges = this.#purges;
    const deadline = new Deadline(signal, AbortSignal.timeout(this.#settings.renderMs));
    try {
      const response = await this.#call(rendered, render, deadline);
      const verdict = this.#verdict(rendered, response, startedAt);
      if ('failed' in verdict) throw new FailedRender(response, verdict);
      if ('refused' in verdict) return await this.#refused(lease, response, response.body, verdict, deadline);
      const body = await this.#read(response, deadline);
      if (!(body instanceof Uint8Array)) {
        const refusal = { refused: 'too-large', withdraws: withdraws(response.status, response.headers) };
        return await this.#refused(lease, response, body, refusal, deadline);
      }
      if (isEmpty(response, body)) {
        return await this.#refused(lease, response, body, { refused: 'empty', withdraws: false }, deadline);
      }
      return await this.#publish(lease, { startedAt, purges }, response, body, verdict);
    } catch (failure) {
      return this.#failed(lease, before?.page, failure, deadline);
    }
  }

  #call(rendered: Request, render: Render, deadline: Deadline): Promise<Response> {
    return deadline.within(async () => render(new Request(rendered, { signal: deadline.signal })));
  }

  /** Reads the body of a response, up to the largest that is stored: a longer one is a stream. */
  async #read(response: Response, deadline: Deadline): Promise<Uint8Array | ReadableStream<Uint8Array>> {
    const body = await deadline.within(() => readBody(response, this.#settings.maxBodyBytes));
    const stated = response.headers.get('content-length');
    if (body instanceof Uint8Array && stated !== null && response.body && Number(stated) !== body.byteLength) {
      throw new Error(`the renderer has sent ${body.byteLength} bytes, and its Content-Length is ${stated}`);
    }
    return body;
  }

  /** Puts the page into back-off. Visitors get the last good page if there is one, else the error. */
  async #failed(lease: Lease, page: Page | undefined, failure: unknown, deadline: Deadline): Promise<Found> {
    const pause = Math.min(firstBackOffMs * 2 ** Math.min(lease.failures, 10), maxBackOffMs) * (1 + Math.random() / 4);
    await this.#breaker.call('a back-off', () => this.#store.backOff(lease, pause));
    const { cacheKey } = lease;
    this.#records.delete(cacheKey);
    this.#settings.warn('a render failed', {
      cacheKey,
      failure: failure instanceof FailedRender ? failure.message : failure,
    });
    if (page) {
      if (failure instanceof FailedRender) discard(failure.response);
      return this.#sharing(page, 'stale');
    }
    if (!(failure instanceof FailedRender)) throw failure;
    const { response, isPersonal } = failure;
    const body = await this.#read(response, deadline);
    if (body instanceof ReadableStream) deadline.waive();
    return failed(response, body, isPersonal, 'status');
  }

  /** Returns a response that must not be stored, for one visitor. A stored copy that it replaces is purged. */
  async #refused(
    lease: Lease,
    response: Response,
    body: Answer['body'],
    { refused, withdraws }: { refused: string; withdraws: boolean },
    deadline: Deadline,
  ): Promise<Found> {
    const { cacheKey, record } = lease;
    if (withdraws && record.entry) {
      await this.#breaker.call('a purge', () => this.purge([{ kind: 'key', value: cacheKey }], { hard: true }));
    }
    this.#uncacheable.set(cacheKey, this.#settings.clock.elapsed() + uncacheableMs, 1);
    if (refused !== selfRedirect) return forOne(unstored(response, body, refused), deadline);
    discard({ body });
    return { answer: undefined, others: undefined };
  }

  /** Stores a page, body first. If that fails visitors get it nevertheless. */
  async #publish(
    lease: Lease,
    { startedAt, purges }: { startedAt: number; purges: number },
    response: Response,
    body: Uint8Array,
    verdict: { revalidateSeconds: number; staleSeconds: number; tags: string[] },
  ): Promise<Found> {
    const { clock } = this.#settings;
    const { cacheKey, record } = lease;
    const generationId = newGenerationId(clock.now(), randomText());
    const content = this.#contentOf(response, startedAt, verdict);
    if ((response.status === 404 || response.status === 410) && !record.entry) {
      return this.#keepMissing(lease, { ...content, generationId }, body);
    }
    const stored = await this.#breaker.call('storing a page', async () => {
      const described = await this.#bodies.put(Bodies.key(lease.pk, generationId), Buffer.from(body));
      return this.#store.publish(lease, record, { ...described, ...content, generationId, key: cacheKey });
    });
    this.#records.delete(cacheKey);
    if (!stored) return shared(unstored(response, body, 'store-unavailable'));
    this.#inMemory.set(stored.htmlPointer, body, body.byteLength);
    if (purges === this.#purges)
      this.#records.set(cacheKey, { record: { ...lease.record, entry: stored }, readAt: unread }, 1);
    return this.#sharing({ entry: stored, body }, 'stored');
  }

  /** Returns what an entry has of a response, without its body. */
  #contentOf(
    response: Response,
    startedAtMs: number,
    verdict: { revalidateSeconds: number; staleSeconds: number; tags: string[] },
  ) {
    const { clock, retentionSeconds } = this.#settings;
    const etag = etagOf(response.headers);
    return {
      ...verdict,
      ...(etag === undefined ? {} : { etag }),
      generatedAtMs: Math.min(startedAtMs, clock.now()),
      initialAgeSeconds: initialAgeOf(response.headers, startedAtMs),
      status: response.status,
      headers: storedFields(response.headers),
      renderMs: Math.max(1, clock.now() - startedAtMs),
      ttlUnixSeconds: Math.floor(clock.now() / 1000 + retentionSeconds) + daySeconds,
    };
  }

  /**
   * Keeps the 404 or 410 of a page that is not stored in the memory of this process, for five minutes at most: visitors can
   * ask for any number of invented pages.
   */
  #keepMissing(
    { cacheKey, purgeSeq }: Lease,
    content: Omit<NextEntry, keyof Described> & { generationId: string },
    body: Uint8Array,
  ): Found {
    const next = { ...content, key: cacheKey, htmlPointer: cacheKey, purgeSeq, staleSeconds: 0 };
    const revalidateSeconds = Math.min(content.revalidateSeconds, maxMissingSeconds);
    const described = { contentSha256: sha256(body), contentLength: body.byteLength };
    const entry = normalize({ ...next, ...described, revalidateSeconds }, content.generationId);
    const page = { entry, body, isUnstored: true };
    this.#missing.set(cacheKey, page, body.byteLength + entryBytes);
    return this.#sharing(page, 'missing');
  }

  /** Renders a page without a lease, and without storing it. Visitors who wait for it share it if it could be stored. */
  async #withoutStoring(rendered: Request, render: Render, detail: string): Promise<Found> {
    const deadline = new Deadline(AbortSignal.timeout(this.#settings.renderMs));
    const startedAt = this.#settings.clock.now();
    const response = await this.#call(rendered, render, deadline);
    const verdict = this.#verdict(rendered, response, startedAt);
    if ('refused' in verdict) {
      if (verdict.refused !== selfRedirect) return forOne(unstored(response, response.body, detail), deadline);
      discard(response);
      return { answer: undefined, others: undefined };
    }
    const body = await this.#read(response, deadline);
    if (body instanceof ReadableStream) deadline.waive();
    if ('failed' in verdict) return failed(response, body, verdict.isPersonal, detail);
    const answer = unstored(response, body, detail);
    return body instanceof Uint8Array && !isEmpty(response, body) ? shared(answer) : { answer, others: undefined };
  }

  /** Judges the response to a render. A redirect to the page's own key would be a loop for its visitors. */
  #verdict(rendered: Request, response: Response, requestedMs: number): Verdict {
    const verdict = judge(response.status, response.headers, this.#settings, requestedMs);
    if ('failed' in verdict || !this.#redirectsToItself(rendered, response)) return verdict;
    return { refused: selfRedirect, withdraws: false };
  }

  #redirectsToItself({ url }: Request, { status, headers }: Response): boolean {
    const location = headers.get('location');
    if (status < 300 || status > 399 || location === null) return false;
    const key = keyOfReference(url, location, this.#settings);
    return key !== undefined && key === keyOfReference(url, url, this.#settings);
  }

  #sharing(page: Page, how: How): Found {
    return shared(this.#answer(page, how));
  }

  #answer({ entry, body, isUnstored }: Page, how: How): Answer {
    return answerOf(entry, body, isUnstored && how === 'hit' ? 'negative' : how, this.#settings.clock.now());
  }
}

/** A page without content is a fault of the renderer more often than a page. */
function isEmpty({ status }: Response, body: Uint8Array): boolean {
  return body.byteLength === 0 && (status === 200 || status === 203);
}

/** The renderer answered with the status of a failure. */
class FailedRender extends Error {
  readonly response: Response;
  readonly isPersonal: boolean;

  constructor(response: Response, { isPersonal }: { isPersonal: boolean }) {
    super(`the renderer answered with status ${response.status}`);
    this.response = response;
    this.isPersonal = isPersonal;
  }
}

function shared(answer: Answer): Found {
  return { answer, others: answer };
}

/** A response for the visitor who caused the render, who may take as long as they want to read it. */
function forOne(answer: Answer, deadline: Deadline): Found {
  deadline.waive();
  return { answer, others: undefined };
}

/** Cancels a body that no visitor reads: its renderer would wait for that. */
function discard(unread: { body: Answer['body'] } | undefined): void {
  if (unread?.body instanceof ReadableStream) unread.body.cancel().catch(() => undefined); // it has failed
}

/** The response of a failed render. Visitors who waited for it get it without what is personal to one visitor. */
function failed(response: Response, body: Answer['body'], isPersonal: boolean, detail: string): Found {
  const answer = unstored(response, body, detail);
  if (!isPersonal && !(body instanceof ReadableStream)) return shared(answer);
  return { answer, others: plainFailure(response, detail) };
}

/** Creates a page cache; see {@link PageCacheOptions}. */
export function createPageCache(options: PageCacheOptions): PageCache {
  return new PageCache(options);
}
