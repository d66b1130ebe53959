import type { AsyncLocalStorage } from 'node:async_hooks';
import type { ServerResponse } from 'node:http';

import { tagsHeader } from './tags.js';

/** The response of the request that is being answered; undefined before {@link followResponses}. */
let current: AsyncLocalStorage<ServerResponse> | undefined;

/**
 * Follows which response this process is working on, from the next request on. Node.js reports each
 * request of its servers on a channel (https://nodejs.org/api/diagnostics_channel.html, `http.server.request.start`).
 */
export function followResponses(): void {
  if (current) return;
  const { AsyncLocalStorage: Storage } = process.getBuiltinModule('node:async_hooks');
  const responses = new Storage<ServerResponse>();
  process.getBuiltinModule('node:diagnostics_channel').subscribe('http.server.request.start', (message) => {
    responses.enterWith((message as { response: ServerResponse }).response);
  });
  current = responses;
}

/**
 * The segments of a page. Next.js answers requests of its router for one of them without the
 * headers of the page, so that reading a segment names the tags of the page in the response.
 */
export class TaggedSegments extends Map<string, unknown> {
  readonly #tags: string;
  readonly #unnamed: () => void;

  /** `unnamed` is called for a segment of a response that is not known, since its request came before {@link followResponses}. */
  constructor(segments: ReadonlyMap<string, unknown>, tags: string, unnamed: () => void) {
    super(segments);
    this.#tags = tags;
    this.#unnamed = unnamed;
  }

  override get(name: string): unknown {
    const response = current?.getStore();
    if (!response) this.#unnamed?.();
    else if (!response.headersSent && !response.hasHeader(tagsHeader)) response.setHeader(tagsHeader, this.#tags);
    return super.get(name);
  }
}
