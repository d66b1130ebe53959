import { InvalidInputError } from '../../errors.js';
import type {
  Answer,
  CacheHandler,
  CacheHandlerClass,
  GetContext,
  HandlerContext,
  SetContext,
  Value,
} from '../contract.js';
import { Gateway, type GatewayOptions } from './gateway.js';
import { ownHandler } from './own.js';
import { followResponses } from './responses.js';

/**
 * Creates a class for `cacheHandler` of `next.config`, for a site behind `isr serve --preset next`.
 * It keeps pages by another handler, and adds what the servers in front need: the responses name the
 * tags of their pages, revalidations purge the pages of the servers, and the first process of a
 * build makes the pages of older ones stale. In `next build`, `next dev` and where Next.js has no
 * files, such as a proxy, it only passes on.
 *
 * Nothing is thrown into Next.js but failed revalidations: without a working configuration the
 * pages are served as without this handler, a warning names what is missing, and revalidations reject.
 */
export function behindGateway(options: GatewayOptions = {}): CacheHandlerClass {
  const front = new Front(options);
  const behind: CacheHandlerClass = class implements CacheHandler {
    readonly #pages: CacheHandler;
    readonly #ctx: HandlerContext;

    constructor(ctx: HandlerContext) {
      this.#pages = new (options.handler ?? ownHandler(ctx))(ctx);
      this.#ctx = ctx;
      front.open(ctx);
    }

    async get(key: string, ctx: GetContext): Promise<Answer | null> {
      const answer = await this.#pages.get(key, ctx);
      if (answer?.value) front.gateway?.name(key, answer.value);
      return answer;
    }

    async set(key: string, value: Value, ctx: SetContext): Promise<void> {
      try {
        await this.#pages.set(key, value, ctx);
      } finally {
        front.gateway?.name(key, value);
      }
      if (!ctx.fetchCache && front.gateway?.isOnDemand(this.#ctx)) await front.gateway.revalidatePage(key);
    }

    /** Rejects if the purge fails or is not confirmed in time, so that a failed purge never goes unnoticed. */
    async revalidateTag(tags: string | readonly string[], durations?: { expire?: number }): Promise<void> {
      await this.#pages.revalidateTag(tags, durations);
      if (front.failure) throw front.failure;
      await front.gateway?.revalidateTags(tags, durations);
    }

    resetRequestCache(): void {
      this.#pages.resetRequestCache();
    }
  };
  // The result has the class of the given handler, so that checks of its type, and methods that refuse wrong use, apply to it.
  return options.handler ? Object.setPrototypeOf(behind, options.handler) : behind;
}

/** The {@link Gateway} of a process, which the first request opens. */
export class Front {
  readonly #options: GatewayOptions;
  #gateway: Gateway | undefined;
  #failure: Error | undefined;

  constructor(options: GatewayOptions) {
    this.#options = options;
  }

  /** Undefined if it is not open, or cannot be. */
  get gateway(): Gateway | undefined {
    return this.#gateway;
  }

  /** Why it cannot be opened. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Opens it in a server. Elsewhere nothing happens. */
  open(ctx: HandlerContext): void {
    const { serverDistDir } = ctx;
    if (this.#gateway || this.#failure || ctx.dev || !serverDistDir || !isServer()) return;
    try {
      this.#gateway = new Gateway(this.#options, { ...ctx, serverDistDir });
      followResponses();
    } catch (failure) {
      this.#failure = failure instanceof Error ? failure : new InvalidInputError(String(failure));
      const consequence = 'isr serve is not notified of revalidations and deployments, which fail';
      (this.#options.warn ?? console.warn)(`${consequence}: ${this.#failure.message}`, { failure });
    }
  }
}

/** Reports whether this is a server in Node.js: not `next build`, and not the edge runtime. */
function isServer(): boolean {
  const isNode = typeof process !== 'undefined' && typeof process.getBuiltinModule === 'function';
  return isNode && process.env['NEXT_PHASE'] !== 'phase-production-build';
}
