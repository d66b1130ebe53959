import { InvalidInputError, UnknownOutcomeError } from '../../errors.js';
import type { Mark } from '../../isr/entry.js';
import type { SharedSite } from '../shared.js';
import type { Site } from '../site.js';

/** How pages are purged: `hard` is never served again, `soft` is stale, served while it is regenerated. */
export type PurgeMode = 'hard' | 'soft';

/** The newest purge of a tag. `seq` is 0 if there was none. */
export interface NewestPurge {
  seq: number;
  /** How long ago it was, in milliseconds. */
  agoMs: number;
}

/** How purges reach the servers of `isr serve`. Calls may be repeated. */
export interface Transport {
  /** What it talks to, and what to check if that fails: for errors. */
  readonly name: string;
  readonly advice: string;
  /** Purges at most {@link maxTargets} tags in one step. Rejects unless it is committed, or may be. */
  purge(tags: readonly string[], mode: PurgeMode, signal: AbortSignal): Promise<void>;
  newestOf(tag: string, signal: AbortSignal): Promise<NewestPurge>;
}

/** How many tags a purge has at most: the bound of the admin API. */
export const maxTargets = 90;

/** How much of an answer is read, and shown of one that is an error. */
const maxAnswer = 64 << 10;
const maxShown = 300;

/** Purges by the admin API of a server. */
export class AdminApi implements Transport {
  readonly name: string;
  readonly advice =
    'is isr serve running there with --admin, is ISR_ADMIN_URL its address, and ISR_ADMIN_TOKEN its token?';
  readonly #url: URL;
  readonly #token: string;
  readonly #tenant: string;

  /** @throws InvalidInputError */
  constructor(adminUrl: string, token: string | undefined, tenant: string) {
    if (!URL.canParse(adminUrl) || !/^https?:$/.test(new URL(adminUrl).protocol)) {
      throw new InvalidInputError(
        `the URL of the admin API of isr serve is ${JSON.stringify(adminUrl)}: set ISR_ADMIN_URL, or adminUrl, to one such as http://127.0.0.1:9180`,
      );
    }
    if (!token) {
      throw new InvalidInputError(
        'ISR_ADMIN_TOKEN is missing: set it to the token of isr serve, which is in admin.token of its data folder, or in its own ISR_ADMIN_TOKEN',
      );
    }
    this.#url = new URL(adminUrl);
    this.#token = token;
    this.#tenant = tenant;
    this.name = `isr serve at ${this.#url.origin}`;
  }

  async purge(tags: readonly string[], mode: PurgeMode, signal: AbortSignal): Promise<void> {
    const targets = tags.map((tag) => ({ tag }));
    await this.#send('/-/purge', signal, { targets, mode, ...(this.#tenant && { tenant: this.#tenant }) });
  }

  async newestOf(tag: string, signal: AbortSignal): Promise<NewestPurge> {
    const of = new URLSearchParams({ tag, ...(this.#tenant && { tenant: this.#tenant }) });
    const { seq, ago_ms: agoMs } = JSON.parse(await this.#send(`/-/purges/tag?${of}`, signal));
    if (!Number.isSafeInteger(seq) || !Number.isFinite(agoMs)) {
      throw new UnknownOutcomeError(`${this.name} did not answer when a tag was purged: is it isr 1.0 or newer?`);
    }
    return { seq, agoMs };
  }

  async #send(path: string, signal: AbortSignal, body?: object): Promise<string> {
    const headers = { authorization: `Bearer ${this.#token}`, ...(body && { 'content-type': 'application/json' }) };
    const { status, text } = await send(new URL(path, this.#url), headers, signal, body && JSON.stringify(body));
    if (status >= 200 && status < 300) return text;
    throw new UnknownOutcomeError(`${this.name} answered with status ${status}: ${text.slice(0, maxShown)}`);
  }
}

/**
 * Sends a request, and follows no redirects. Next.js replaces `fetch` by one that takes part in the
 * rendering of the page that is being rendered.
 */
function send(
  url: URL,
  headers: Record<string, string>,
  signal: AbortSignal,
  body: string | undefined,
): Promise<{ status: number; text: string }> {
  const { request } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http');
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: body === undefined ? 'GET' : 'POST', headers, signal }, (response) => {
      let text = '';
      const done = () => resolve({ status: response.statusCode ?? 0, text });
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
        if (text.length > maxAnswer) response.destroy(); // another server than expected
      });
      response.on('error', reject);
      response.on('close', done);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Purges in the table that the servers share with this process. */
export class SharedTable implements Transport {
  readonly name = 'the table of the cache handler';
  readonly advice = 'does the table answer?';
  readonly #shared: SharedSite;
  readonly #tenant: string;

  constructor(shared: SharedSite, tenant: string) {
    this.#shared = shared;
    this.#tenant = tenant;
  }

  async purge(tags: readonly string[], mode: PurgeMode, signal: AbortSignal): Promise<void> {
    const targets = tags.map((value) => ({ kind: 'tag' as const, value, tenant: this.#tenant }));
    await (await this.#site()).store.purge(targets, { hard: mode === 'hard', signal });
  }

  async newestOf(tag: string, signal: AbortSignal): Promise<NewestPurge> {
    const { store, settings } = await this.#site();
    const isOfTag = (mark: Mark) => mark.kind === 'tag' && mark.tenant === this.#tenant && mark.value === tag;
    const mark = (await store.marks({ signal })).find(isOfTag);
    return { seq: mark?.seq ?? 0, agoMs: mark ? Math.max(0, settings.clock.now() - mark.atMs) : 0 };
  }

  async #site(): Promise<Site> {
    const open = await this.#shared.open();
    if (open) return open.site;
    throw new InvalidInputError(`the cache handler is inactive: ${this.#shared.reason}`);
  }
}
