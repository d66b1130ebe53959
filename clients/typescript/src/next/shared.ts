import { systemClock } from '../clock.js';
import type { OpenSite } from './active.js';
import type { HandlerContext } from './contract.js';
import type { CacheHandlerOptions } from './options.js';

/** How the handlers of a process begin their warnings. */
const beginning = 'ISR cache';

/**
 * What the handlers of a process share: its {@link Site}, which the first method that Next.js calls
 * opens. Without what a site needs, such as a build or a table, the handlers are inactive: they have
 * no values and store none.
 *
 * Next.js bundles the handlers into the proxy (middleware) and into routes of the edge runtime, and
 * constructs them there without a build. So this module, and those that it and the entries of the
 * package import statically, import neither `node:` modules nor the AWS SDK: `active.ts` does.
 */
export class SharedSite {
  readonly options: CacheHandlerOptions;
  /** What Next.js passed to a constructor: of a server of the build, if there was one. */
  #ctx: HandlerContext | undefined;
  #opened: OpenSite | undefined;
  #opening: Promise<OpenSite | undefined> | undefined;
  /** Why the handlers are inactive. */
  #reason: string | undefined;

  constructor(options: CacheHandlerOptions) {
    this.options = options;
  }

  /** The site, if it is open. */
  get opened(): OpenSite | undefined {
    return this.#opened;
  }

  /** Why {@link open} found no site. */
  get reason(): string {
    return this.#reason ?? 'it is not open';
  }

  /** The time by the clock of the options, in epoch milliseconds. */
  now(): number {
    return (this.options.clock ?? systemClock()).now();
  }

  /** Notes what Next.js passed to a constructor. */
  construct(ctx: HandlerContext): void {
    if (!this.#ctx?.serverDistDir) this.#ctx = ctx;
  }

  /** Opens the site, once for all callers; undefined, with one warning, if something is missing. */
  async open(): Promise<OpenSite | undefined> {
    const ctx = this.#ctx;
    // A server of the build may construct a handler later, after a proxy that shares the module with it.
    if (!ctx || (!ctx.serverDistDir && this.options.buildId === undefined)) {
      return this.#refuse('Next.js gives it no build in the proxy (middleware) and in the edge runtime');
    }
    this.#opening ??= this.#load(ctx);
    this.#opened ??= await this.#opening;
    return this.#opened;
  }

  /** Opens the site for `'use cache'`: one of its own if Next.js has constructed no handler of pages. */
  openForFunctions(): Promise<OpenSite | undefined> {
    return this.#ctx ? this.open() : this.#load(undefined);
  }

  async #load(ctx: HandlerContext | undefined): Promise<OpenSite | undefined> {
    try {
      // Next.js replaces the variable when it bundles, and leaves out the branch with `node:` modules.
      const active = process.env['NEXT_RUNTIME'] === 'edge' ? undefined : await import('./active.js');
      return active?.openSite(this.options, ctx) ?? this.#refuse('the edge runtime has no modules of Node.js');
    } catch (failure) {
      return this.#refuse(failure instanceof Error ? failure.message : String(failure));
    }
  }

  #refuse(reason: string): undefined {
    if (this.#reason === reason) return undefined;
    this.#reason = reason;
    const warn = this.options.warn ?? ((message: string) => console.warn(`${beginning}: ${message}`));
    warn(`the cache handler is inactive here, so that nothing is cached: ${reason}`, {});
    return undefined;
  }
}

export { sharedSite } from './sharedsite.js';
