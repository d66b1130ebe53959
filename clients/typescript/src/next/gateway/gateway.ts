import { occasionally } from '../../cache/occasionally.js';
import { InvalidInputError } from '../../errors.js';
import type { Warn } from '../../isr/backend.js';
import { checkOptions, type Members } from '../../options.js';
import type { CacheHandlerClass, HandlerContext, Value } from '../contract.js';
import type { SharedSite } from '../shared.js';
import { sharedSite } from '../sharedsite.js';
import { type Build, buildIn } from './build.js';
import { deploy } from './deployments.js';
import { publicTags } from './paths.js';
import { Purges } from './purges.js';
import { TaggedSegments } from './responses.js';
import { addTags, manyTag } from './tags.js';
import { AdminApi, type PurgeMode, SharedTable, type Transport } from './transport.js';

/** The options of a cache handler behind `isr serve`. Every member has a default, some of them from the environment. */
export interface GatewayOptions {
  /** The handler that keeps the pages: the result of `createCacheHandler`. Default: Next.js's own, in files and memory. */
  handler?: CacheHandlerClass;
  /**
   * The URL of the admin API of a server. Default: ISR_ADMIN_URL, else none with a handler of
   * `createCacheHandler`, whose table the servers then share, and `http://127.0.0.1:9180` without one.
   */
  adminUrl?: string;
  /** The token of the admin API. Default: ISR_ADMIN_TOKEN. */
  token?: string;
  /** The tenant of the pages at `isr serve` (`--tenant-header`). Default: none. */
  tenant?: string;
  /** The id of the build. Default: the id that Next.js uses, `deploymentId` of its configuration, else `.next/BUILD_ID`. */
  buildId?: string;
  /** How long a revalidation waits for `isr serve` to confirm the purge, in seconds, above 0 and at most an hour. Default: 5. */
  waitSeconds?: number;
  /**
   * How long after the start of a process of a new build processes of the older one may still
   * answer, in seconds, at most a day: the pages are then made stale once more. Default: 90.
   */
  drainSeconds?: number;
  /** Called for failures and how they were handled. Default: `console.warn`, once per minute for the same message. */
  warn?: Warn;
}

const members: Members<GatewayOptions> = {
  handler: true,
  adminUrl: true,
  token: true,
  tenant: true,
  buildId: true,
  waitSeconds: true,
  drainSeconds: true,
  warn: true,
};

/** How long a response without tags, in milliseconds, may take to be stored at `isr serve` before it is purged. */
const unnamedMs = 5000;

/** Next.js's keys of cached responses: `/route-cache/<kind>/<sha256 of the route>/$/<path>`, in Next.js 15 `<path>`. */
const routeKey = /^(?:\/route-cache\/[A-Z_]+\/[0-9a-f]{64}\/\$)?(\/.*)$/s;

/** What the handlers of a process share of the servers of `isr serve` in front of them. */
export class Gateway {
  readonly #build: Build;
  readonly #purges: Purges;
  readonly #waitMs: number;

  /** @throws InvalidInputError */
  constructor(options: GatewayOptions, ctx: HandlerContext & { serverDistDir: string }) {
    checkOptions('behindGateway', options, members);
    const { dirname } = process.getBuiltinModule('node:path');
    const warn = options.warn ?? occasionally({ elapsed: () => performance.now() }, 'isr serve');
    this.#waitMs = seconds('waitSeconds', options.waitSeconds ?? 5, 3600) * 1000;
    const drainMs = seconds('drainSeconds', options.drainSeconds ?? 90, 86_400) * 1000;
    this.#build = buildIn(dirname(ctx.serverDistDir), process.env['NEXT_DEPLOYMENT_ID']);
    const transport = transportOf(options, ctx);
    this.#purges = new Purges(transport, warn);
    void deploy(transport, options.buildId ?? this.#build.id, drainMs, warn);
  }

  /** Names the tags of a page in the responses that Next.js makes of it. */
  name(key: string, value: Value): void {
    if (value?.kind !== 'APP_PAGE' && value?.kind !== 'APP_ROUTE') return;
    const tags = addTags(value);
    const segments = value['segmentData'];
    if (tags === '' || !(segments instanceof Map) || segments instanceof TaggedSegments) return;
    const unnamed = () => void setTimeout(() => this.#purge([pathTagOf(key)], 'soft').catch(() => {}), unnamedMs);
    (value as Record<string, unknown>)['segmentData'] = new TaggedSegments(segments, tags, unnamed);
  }

  /** Reports whether a request is one of Next.js to itself, for `res.revalidate`. */
  isOnDemand(ctx: HandlerContext): boolean {
    const secret = ctx._requestHeaders?.['x-prerender-revalidate'];
    return this.#build.onDemandSecret !== '' && secret === this.#build.onDemandSecret;
  }

  /** Purges a page that was rendered for `res.revalidate`. @throws UnknownOutcomeError */
  async revalidatePage(key: string): Promise<void> {
    await this.#purge([pathTagOf(key)], 'hard');
  }

  /** Purges the pages of tags that Next.js revalidates. @throws UnknownOutcomeError */
  async revalidateTags(tags: string | readonly string[], durations: { expire?: number } | undefined): Promise<void> {
    const mode = !durations || durations.expire === 0 ? 'hard' : 'soft';
    await this.#purge([...(typeof tags === 'string' ? [tags] : tags), manyTag], mode);
  }

  async #purge(tags: readonly string[], mode: PurgeMode): Promise<void> {
    const all = new Set(tags.flatMap((tag) => publicTags(tag, this.#build)));
    await this.#purges.purge([...all], mode, this.#waitMs);
  }
}

/** Returns the tag of a page's path, as `revalidatePath` of the path names it. */
function pathTagOf(key: string): string {
  const path = routeKey.exec(key)?.[1] ?? key;
  const shown = path === '/index' ? '/' : path.replace(/^\/index(?=\/index(\/|$))/, '');
  return `_N_T_${shown}`;
}

function transportOf(options: GatewayOptions, ctx: HandlerContext): Transport {
  const { handler, tenant = '' } = options;
  const adminUrl = options.adminUrl ?? process.env['ISR_ADMIN_URL'];
  const shared = (handler as { [sharedSite]?: SharedSite } | undefined)?.[sharedSite];
  if (!adminUrl && shared) {
    shared.construct(ctx);
    return new SharedTable(shared, tenant);
  }
  return new AdminApi(adminUrl || 'http://127.0.0.1:9180', options.token ?? process.env['ISR_ADMIN_TOKEN'], tenant);
}

function seconds(name: string, given: number, most: number): number {
  if (given > 0 && given <= most) return given;
  throw new InvalidInputError(`${name} must be above 0 and at most ${most} seconds (got ${given})`);
}
