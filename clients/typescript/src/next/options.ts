import { storeMembers } from '../cache/members.js';
import { milliseconds, type StoreOptions, type StoreSettings, storeSettingsOf } from '../cache/settings.js';
import { checkOptions, type Members } from '../options.js';

/** The options of a cache handler. Every member has a default, some of them from the environment. */
export interface CacheHandlerOptions extends StoreOptions {
  /**
   * The id of the build that pages belong to. All servers of a build must use the same.
   * Default: the id that Next.js uses, `deploymentId` of its configuration, else `.next/BUILD_ID`.
   */
  buildId?: string;
  /**
   * The lifetime of a page's lease, in seconds: how long other servers wait before they take
   * over from a server that died during a rendering. Heartbeats extend it. Default: 15.
   */
  leaseSeconds?: number;
  /** The timeout of a rendering, in seconds, after which another server may render. Default: 120. */
  renderSeconds?: number;
  /**
   * How long a cache miss waits for the server that is rendering the page, in seconds; then
   * this server renders it too. Default: 30.
   */
  waitSeconds?: number;
  /**
   * How long a server may use what it knows of the purge log, in seconds, and so how late it may see
   * revalidations by other servers; its own are seen at once. Rows of fresh pages are in memory, whatever
   * this is. Default: 0, each visit reads the log.
   */
  trustSeconds?: number;
}

/** Options with defaults applied. Members ending in `Ms` are in milliseconds. */
export interface Settings extends StoreSettings {
  readonly buildId: string | undefined;
  readonly leaseMs: number;
  readonly renderMs: number;
  readonly waitMs: number;
  readonly trustMs: number;
}

const members: Members<CacheHandlerOptions> = {
  ...storeMembers,
  buildId: true,
  leaseSeconds: true,
  renderSeconds: true,
  waitSeconds: true,
  trustSeconds: true,
};

/** @throws InvalidInputError InvalidKeyError */
export function settingsOf(o: CacheHandlerOptions, environment: NodeJS.ProcessEnv): Settings {
  checkOptions('createCacheHandler', o, members);
  return {
    ...storeSettingsOf(o, { maker: 'createCacheHandler', warning: 'ISR cache' }, environment),
    buildId: o.buildId,
    leaseMs: milliseconds('leaseSeconds', o.leaseSeconds ?? 15, 1),
    renderMs: milliseconds('renderSeconds', o.renderSeconds ?? 120, 1),
    waitMs: milliseconds('waitSeconds', o.waitSeconds ?? 30, 0),
    trustMs: milliseconds('trustSeconds', o.trustSeconds ?? 0, 0),
  };
}
