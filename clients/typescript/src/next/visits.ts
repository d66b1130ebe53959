import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import { type IncomingMessage, ServerResponse } from 'node:http';

import type { HandlerContext } from './contract.js';

/** How often a response is looked at, in milliseconds, while a render is in progress for it. */
const lookEveryMs = 250;

/**
 * A request that this process answers. While it lasts Next.js may be rendering for it: until its
 * response has ended, and until the regenerations that it has begun in the background have.
 */
export class Visit {
  readonly #response: ServerResponse;
  #isClosed = false;
  #isAnswered = false;
  #inBackground = 0;
  readonly #watchers = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;

  constructor(response: ServerResponse) {
    this.#response = response;
    response.once('close', () => {
      this.#isClosed = true;
      this.#look();
    });
  }

  /** Nothing is rendered for it any more. */
  get isOver(): boolean {
    this.#look();
    return this.#isAnswered && this.#inBackground === 0;
  }

  /** It was answered with a status of a failure, 500 or above. */
  get hasFailed(): boolean {
    return this.#response.statusCode >= 500;
  }

  /** Calls `watcher` once it is over, unless the returned function is called before. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    // The end of a response is no event while its visitor does not read it, or has left.
    this.#timer ??= setInterval(() => this.#look(), lookEveryMs).unref();
    return () => {
      this.#watchers.delete(watcher);
      this.#rest();
    };
  }

  /** Keeps the visit from being over until the returned function is called. */
  hold(): () => void {
    this.#inBackground++;
    let isHeld = true;
    return () => {
      if (isHeld) this.#inBackground--;
      isHeld = false;
      this.#look();
    };
  }

  /** If the visitor has left, Next.js does not end the response to a failed render, but sets its status. */
  #look(): void {
    const { writableEnded, headersSent, statusCode } = this.#response;
    this.#isAnswered ||= writableEnded || (this.#isClosed && (headersSent || statusCode >= 500));
    if (!this.#isAnswered || this.#inBackground > 0) return;
    const watchers = [...this.#watchers];
    this.#watchers.clear();
    this.#rest();
    for (const watcher of watchers) watcher();
  }

  /** Stops listening if there are no watchers. */
  #rest(): void {
    if (this.#watchers.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** The headers of a request, as Next.js passes them to a handler: a copy. */
export type RequestHeaders = NonNullable<HandlerContext['_requestHeaders']>;

/**
 * The visits in progress in this process. Next.js notifies a cache handler when a render begins and
 * when it has succeeded, but neither when it has failed nor when there is none. Node.js notifies when
 * the response has ended: by then there is no render (diagnostics_channel, "http.server").
 *
 * The first look-up begins to listen. Visits that are in progress then are found by their headers.
 */
export class Visits {
  readonly #current = new AsyncLocalStorage<Visit>();
  /** The visits that began before this listened, and are not over. */
  readonly #early = new Map<Visit, RequestHeaders>();
  #isListening = false;

  /** Returns the visit that the caller works for, which may be one of several; none if it is unknown. */
  of(headers: RequestHeaders = {}): Visit[] {
    const known = this.#current.getStore();
    if (known) return [known];
    return [...this.#early].filter(([, sent]) => includes(headers, sent)).map(([visit]) => visit);
  }

  /** Begins to listen, unless it does already. */
  listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    for (const response of responsesInProgress()) {
      const visit = new Visit(response);
      this.#early.set(visit, sentHeaders(response.req));
      response.once('close', () => this.#early.delete(visit));
    }
    subscribe('http.server.request.start', (message) => {
      // Node.js emits the request in this context.
      this.#current.enterWith(new Visit((message as { response: ServerResponse }).response));
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

/** Returns the headers that a visitor has sent: Next.js adds others. */
function sentHeaders({ rawHeaders, headers }: IncomingMessage): RequestHeaders {
  const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  return Object.fromEntries(names.map((name) => [name, headers[name]]));
}

function includes(headers: RequestHeaders, sent: RequestHeaders): boolean {
  return Object.entries(sent).every(([name, value]) => String(headers[name]) === String(value));
}
