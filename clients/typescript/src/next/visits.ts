import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import { type IncomingMessage, ServerResponse } from 'node:http';

import type { HandlerContext } from './contract.js';

/** How often, and how many times, a response whose visitor has gone is looked at, in milliseconds: ending it is no event then. */
const lookEveryMs = 250;
const maxLooks = 2400;

/**
 * A request that this process answers. While it lasts Next.js may be rendering for it: until its
 * response has ended, and until the regenerations that it has begun in the background have.
 */
export class Visit {
  #isAnswered = false;
  #hasFailed = false;
  #inBackground = 0;
  readonly #watchers = new Set<() => void>();

  /** Nothing is rendered for it any more. */
  get isOver(): boolean {
    return this.#isAnswered && this.#inBackground === 0;
  }

  /** It was answered with a status of a failure, 500 or above. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Calls `watcher` once it is over, unless the returned function is called before. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** Keeps the visit from being over until the returned function is called. */
  hold(): () => void {
    this.#inBackground++;
    let isHeld = true;
    return () => {
      if (isHeld) this.#inBackground--;
      isHeld = false;
      this.#tell();
    };
  }

  /** Notes that the response has ended, with a status. */
  answered(status: number): void {
    this.#hasFailed = status >= 500;
    this.#isAnswered = true;
    this.#tell();
  }

  #tell(): void {
    if (!this.isOver) return;
    const watchers = [...this.#watchers];
    this.#watchers.clear();
    for (const watcher of watchers) watcher();
  }
}

/** The headers of a request, as Next.js passes them to a handler: a copy. */
export type RequestHeaders = NonNullable<HandlerContext['_requestHeaders']>;

/**
 * The visits in progress in this process. Next.js tells a cache handler that a render begins and
 * that it has succeeded, but neither that it has failed nor that there is none. Node.js tells when
 * the response has ended: by then there is no render (diagnostics_channel, "http.server").
 *
 * The first look-up begins to listen. Visits that are in progress then are found by their headers.
 */
export class Visits {
  readonly #current = new AsyncLocalStorage<Visit>();
  /** The visits that began before this listened, and are not over. */
  readonly #early = new Map<Visit, RequestHeaders>();
  #isListening = false;

  /** Returns the visit that the caller works for; undefined if that cannot be told. */
  of(headers: RequestHeaders = {}): Visit | undefined {
    const known = this.#current.getStore();
    if (known) return known;
    const alike = [...this.#early].filter(([, sent]) => includes(headers, sent)).map(([visit]) => visit);
    return alike.length > 1 ? allOf(alike) : alike[0];
  }

  /** Begins to listen, unless it does already. */
  listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    for (const response of responsesInProgress()) {
      const visit = new Visit();
      this.#early.set(visit, sentHeaders(response.req));
      visit.watch(() => this.#early.delete(visit));
      follow(visit, response);
    }
    subscribe('http.server.request.start', (message) => {
      const visit = new Visit();
      follow(visit, (message as { response: ServerResponse }).response);
      this.#current.enterWith(visit); // Node.js emits the request in this context
    });
  }
}

/**
 * Returns the responses in progress of the plain HTTP servers of this process. Node.js lists its
 * handles, but neither the list nor the response of a socket is documented: without them there are none.
 */
function responsesInProgress(): ServerResponse[] {
  const { _getActiveHandles: list } = process as { _getActiveHandles?: () => { _httpMessage?: unknown }[] };
  const messages = (list?.call(process) ?? []).map(({ _httpMessage: message }) => message);
  return messages.filter((message) => message instanceof ServerResponse);
}

/** Returns a visit that is over when all of the visits are. */
function allOf(visits: readonly Visit[]): Visit {
  const all = new Visit();
  let left = visits.length;
  for (const visit of visits) {
    visit.watch(() => {
      left--;
      if (left === 0) all.answered(visits.some(({ hasFailed }) => hasFailed) ? 500 : 200);
    });
  }
  return all;
}

/**
 * Tells a visit when its response has ended, or, if its visitor has left before, when it would have:
 * Next.js then does not end the response to a failed render, but sets its status.
 */
function follow(visit: Visit, response: ServerResponse): void {
  response.once('close', () => {
    if (response.writableEnded) {
      visit.answered(response.statusCode);
      return;
    }
    let looks = 0;
    const timer = setInterval(() => {
      const isDone = response.writableEnded || response.headersSent || response.statusCode >= 500;
      if (!isDone && ++looks < maxLooks) return;
      clearInterval(timer);
      visit.answered(response.statusCode);
    }, lookEveryMs);
    timer.unref();
  });
}

/** Returns the headers that a visitor has sent: Next.js adds others. */
function sentHeaders({ rawHeaders, headers }: IncomingMessage): RequestHeaders {
  const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  return Object.fromEntries(names.map((name) => [name, headers[name]]));
}

function includes(headers: RequestHeaders, sent: RequestHeaders): boolean {
  return Object.entries(sent).every(([name, value]) => String(headers[name]) === String(value));
}
