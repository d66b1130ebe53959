import type { HandlerContext } from './contract.js';
import { type CacheHandlerOptions, settingsOf } from './options.js';
import { Site } from './site.js';

/** The {@link Site} of a process, which its handlers share: it is opened by the first request. */
export class SharedSite {
  readonly options: CacheHandlerOptions;
  #site: Site | undefined;

  constructor(options: CacheHandlerOptions) {
    this.options = options;
  }

  /** The site, if it is open. */
  get opened(): Site | undefined {
    return this.#site;
  }

  /** @throws InvalidInputError InvalidKeyError if the table or the bucket is missing, or an option is invalid */
  open(ctx: HandlerContext): Site {
    this.#site ??= new Site(settingsOf(this.options, process.env), ctx);
    return this.#site;
  }
}

/** The property of a handler class with its {@link SharedSite}. */
export const sharedSite: unique symbol = Symbol('sharedSite');
