import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { LruCache } from '../cache/lru.js';
import { InvalidInputError } from '../errors.js';
import type { Warn } from '../isr/backend.js';
import type { Entry } from '../isr/entry.js';
import type { CacheControl, GetContext, Value } from './contract.js';
import { unstoredEntry } from './entries.js';
import { stampFile } from './stamp.js';

/**
 * The pages that `next build` has made, as entries of the cache. They stay in the files of the
 * build, which all its servers have: nothing is written to the table until such a page is
 * regenerated, and its row replaces it.
 *
 *	.next/prerender-manifest.json   which pages there are, and their lifetimes
 *	.next/server/app/a.{html,rsc,meta,body,segments/}, .next/server/pages/b.{html,json,meta}
 *	.next/server/route-cache/facetheory-build.json   when the build began
 */
export interface Seed {
  /** The entry as of the start of the build. Its purge sequence is unknown: 0. */
  readonly entry: Entry;
  /** Reads the value; undefined if its files are missing or malformed. */
  read(): Promise<{ value: Value; bytes: number } | undefined>;
}

/** The header of Next.js's requests to itself for `res.revalidate`, with a secret of the build. */
export const onDemandHeader = 'x-prerender-revalidate';

/** The header of those requests that are to revalidate a page only if it exists (`unstable_onlyGenerated`). */
export const onlyGeneratedHeader = 'x-prerender-revalidate-if-generated';

/** How many pages' descriptions are kept in memory. */
const maxKnown = 10_000;

/** Next.js's keys of cached responses: `/route-cache/<kind>/<sha256 of the route>/$/<path>`; in earlier releases the path alone. */
const routeKey = /^\/route-cache\/([A-Z_]+)\/([0-9a-f]{64})\/\$(\/.*)$/s;

/** The parts of a key. One that is a path has no kind and no hash of its route. */
function partsOf(key: string): { kind?: string | undefined; source?: string | undefined; path: string } {
  const [, kind, source, path] = routeKey.exec(key) ?? [];
  return path === undefined ? { path: key } : { kind, source, path };
}

/** The kinds that `next build` makes, with their directories and the suffixes of their bodies. */
const files = {
  APP_PAGE: { directory: 'app', suffix: '.html' },
  APP_ROUTE: { directory: 'app', suffix: '.body' },
  PAGES: { directory: 'pages', suffix: '.html' },
} as const;

type SeedKind = keyof typeof files;

/** A description of a page beside its files, `.meta`. */
interface Meta {
  headers?: Readonly<Record<string, unknown>>;
  status?: number;
  postponed?: string;
  segmentPaths?: readonly string[];
  routeCache?: { key?: string; isFallback?: boolean };
}

/** A page in the manifest: of a path, or of a route with parameters, which may have a shell. */
interface ManifestRoute {
  initialRevalidateSeconds?: number | false;
  initialExpireSeconds?: number;
  fallbackRevalidate?: number | false;
  fallbackExpire?: number;
  srcRoute?: string | null;
}

/** What is kept of a page of the manifest, which has much more about each. */
interface BuiltRoute {
  life: CacheControl;
  /** The route whose pages have parameters in their paths. */
  srcRoute: string | undefined;
}

/** What Next.js asks for: its key, and how it will use the value. */
export interface SeedRequest {
  /** The key of this package, for the memory. */
  cacheKey: string;
  /** Next.js's key. */
  key: string;
  ctx: GetContext;
}

/** The seeds of a build. */
export class Seeds {
  readonly #directory: string;
  /** When the build began, in epoch milliseconds; undefined if it has no stamp. */
  readonly #startedAtMs: number | undefined;
  readonly #onDemandSecret: string;
  /** How old a seed may be, in milliseconds: rows that replace seeds are kept for longer. */
  readonly #maxAgeMs: number;
  /** The pages of the build by their paths, as keys have them. */
  readonly #routes: ReadonlyMap<string, BuiltRoute>;
  readonly #notFound: ReadonlySet<string>;
  readonly #known = new LruCache<{ seed: Seed | undefined }>(maxKnown);

  private constructor(directory: string, manifest: Manifest, startedAtMs: number | undefined, maxAgeMs: number) {
    this.#directory = directory;
    this.#startedAtMs = startedAtMs;
    this.#maxAgeMs = maxAgeMs;
    this.#onDemandSecret = manifest.preview?.previewModeId ?? '';
    const all = { ...manifest.dynamicRoutes, ...manifest.routes };
    this.#routes = new Map(Object.entries(all).map(([path, route]) => [keyPath(path), builtRoute(route)]));
    this.#notFound = new Set((manifest.notFoundRoutes ?? []).map(keyPath));
  }

  /** Opens the seeds of a build. Without a stamp, with a warning, it has none. @throws InvalidInputError if it has no manifest */
  static open(serverDistDir: string | undefined, retentionSeconds: number, warn: Warn): Seeds | undefined {
    if (!serverDistDir) return undefined;
    const manifest = manifestOf(join(serverDistDir, '..', 'prerender-manifest.json'));
    return new Seeds(serverDistDir, manifest, startOf(join(serverDistDir, stampFile), warn), retentionSeconds * 1000);
  }

  /** Reports whether the value of {@link onDemandHeader} is the secret of this build. */
  isOnDemand(value: unknown): boolean {
    return this.#onDemandSecret !== '' && value === this.#onDemandSecret;
  }

  /** Returns the seed of a page at a time in epoch milliseconds; undefined if the build has none. */
  async find(request: SeedRequest, nowMs: number): Promise<Seed | undefined> {
    if (this.#startedAtMs === undefined || nowMs - this.#startedAtMs >= this.#maxAgeMs) return undefined;
    const { cacheKey, ctx } = request;
    const name = `${cacheKey}\0${ctx.kind}\0${Boolean(ctx.isFallback)}\0${Boolean(ctx.isRoutePPREnabled)}`;
    const known = this.#known.get(name);
    if (known) return known.seed;
    const seed = await this.#load(request, name, this.#startedAtMs);
    this.#known.set(name, { seed }, 1);
    return seed;
  }

  /** Reports whether the build found that a page of the pages router does not exist. Next.js then never renders it for a missing entry. */
  isNotFound(key: string): boolean {
    const { kind = 'PAGES', path } = partsOf(key);
    return kind === 'PAGES' && this.#notFound.has(path);
  }

  async #load({ key, ctx }: SeedRequest, name: string, startedAtMs: number): Promise<Seed | undefined> {
    const { kind = ctx.kind, source, path } = partsOf(key);
    const route = this.#routes.get(path);
    // Only paths of the manifest: a request cannot make a server look for other files.
    if (!route || kind !== ctx.kind || !Object.hasOwn(files, ctx.kind)) return undefined;
    if (this.isNotFound(key)) {
      if (source !== undefined && source !== sha256(route.srcRoute ?? pathOfKey(path))) return undefined;
      return { entry: entryOf(name, null, route, startedAtMs), read: async () => ({ value: null, bytes: 0 }) };
    }
    const meta = await this.#meta(key, path, ctx);
    if (!meta) return undefined;
    const value = { kind: ctx.kind, headers: meta.headers, status: meta.status };
    return { entry: entryOf(name, value, route, startedAtMs), read: () => this.#read(key, path, ctx) };
  }

  /** Reads and verifies the description of a page, by the rules of Next.js's FileSystemCache; undefined if it is of another page. */
  async #meta(key: string, path: string, ctx: GetContext): Promise<Meta | undefined> {
    const text = await this.#file(path, '.meta', ctx);
    const meta: Meta | undefined = text ? parsed(text) : undefined;
    // Releases whose keys are paths describe no pages of the pages router, and name no keys.
    if (key === path) return meta?.routeCache ? undefined : (meta ?? (ctx.kind === 'PAGES' ? {} : undefined));
    const isShell = ctx.kind === 'APP_PAGE' && ctx.isRoutePPREnabled && meta?.postponed != null;
    const isWanted = meta?.routeCache?.isFallback === Boolean(ctx.isFallback) || isShell;
    return meta?.routeCache?.key === key && isWanted ? meta : undefined;
  }

  /** Reads a page. Its description is read again: the state of a postponed page may be large. */
  async #read(key: string, path: string, ctx: GetContext): Promise<{ value: Value; bytes: number } | undefined> {
    const { suffix } = files[ctx.kind as SeedKind];
    const [meta, body] = await Promise.all([this.#meta(key, path, ctx), this.#file(path, suffix, ctx)]);
    if (!meta || !body) return undefined;
    const { headers, status } = meta;
    if (ctx.kind === 'APP_ROUTE') return { value: { kind: ctx.kind, body, headers, status }, bytes: body.length };
    const html = body.toString('utf8');
    if (ctx.kind === 'PAGES') {
      const data = ctx.isFallback ? Buffer.from('{}') : await this.#file(path, '.json', ctx);
      if (!data) return undefined;
      const pageData = JSON.parse(data.toString('utf8'));
      return { value: { kind: 'PAGES', html, pageData, headers, status }, bytes: body.length + data.length };
    }
    const hasRsc = !ctx.isFallback && (!ctx.isRoutePPREnabled || meta.postponed == null);
    const rscData = hasRsc ? await this.#file(path, '.rsc', ctx) : undefined;
    if (hasRsc && !rscData) return undefined;
    const segmentData = meta.segmentPaths && (await this.#segments(path, meta.segmentPaths, ctx));
    const parts = [body, rscData, ...(segmentData?.values() ?? [])];
    const bytes = parts.reduce((sum, part) => sum + (part?.length ?? 0), meta.postponed?.length ?? 0);
    return {
      value: { kind: 'APP_PAGE', html, rscData, postponed: meta.postponed, headers, status, segmentData },
      bytes,
    };
  }

  /** Reads the segments of a page. A segment without a file counts as dynamic, as it does in Next.js. */
  async #segments(path: string, segments: readonly string[], ctx: GetContext): Promise<Map<string, Buffer>> {
    const read = await Promise.all(segments.map((name) => this.#file(`${path}.segments${name}`, '.segment.rsc', ctx)));
    return new Map(segments.flatMap((name, i) => (read[i] ? [[name, read[i]] as const] : [])));
  }

  /** Reads a file of the build; undefined if it is missing, or outside of the directory. */
  async #file(path: string, suffix: string, ctx: GetContext): Promise<Buffer | undefined> {
    const root = join(this.#directory, files[ctx.kind as SeedKind].directory);
    const file = join(root, path + suffix);
    return file.startsWith(root + sep) ? readFile(file).catch(() => undefined) : undefined;
  }
}

/** Parses a description; undefined if it is malformed. */
function parsed(text: Buffer): Meta | undefined {
  try {
    return JSON.parse(text.toString('utf8'));
  } catch {
    return undefined;
  }
}

function builtRoute(route: ManifestRoute): BuiltRoute {
  const revalidate = route.initialRevalidateSeconds ?? route.fallbackRevalidate ?? false;
  const life = { revalidate, expire: route.initialExpireSeconds ?? route.fallbackExpire };
  return { life, srcRoute: route.srcRoute ?? undefined };
}

/** Returns the entry of a seed, whose body is in files. */
function entryOf(name: string, value: Value, { life }: BuiltRoute, generatedAtMs: number): Entry {
  return unstoredEntry({ name: `seed ${name}`, value, life, generatedAtMs, purgeSeq: 0 });
}

/** @throws InvalidInputError */
function manifestOf(file: string): Manifest {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new InvalidInputError(`${file} cannot be read: expected a Next.js build`, { cause });
  }
}

/** Returns when a build began; undefined, with a warning, if it has no stamp. */
function startOf(file: string, warn: Warn): number | undefined {
  try {
    const { startedAtMs } = JSON.parse(readFileSync(file, 'utf8'));
    if (Number.isSafeInteger(startedAtMs) && startedAtMs > 0) return startedAtMs;
    throw new InvalidInputError(`startedAtMs in ${file} is ${startedAtMs}: expected epoch milliseconds`);
  } catch (failure) {
    const advice = 'run next build with this cacheHandler, and copy .next as a whole';
    warn(`the pages of next build are rendered again: ${advice}`, { failure });
    return undefined;
  }
}

/** `.next/prerender-manifest.json`. */
interface Manifest {
  preview?: { previewModeId?: string };
  routes?: Readonly<Record<string, ManifestRoute>>;
  dynamicRoutes?: Readonly<Record<string, ManifestRoute>>;
  notFoundRoutes?: readonly string[];
}

/** Returns a path of the manifest as Next.js writes it in keys and names of files: `/` is `/index`, and `/index` is `/index/index`. */
function keyPath(path: string): string {
  if (path === '/') return '/index';
  return /^\/index(\/|$)/.test(path) ? `/index${path}` : path;
}

/** The inverse of {@link keyPath}. */
function pathOfKey(path: string): string {
  if (path === '/index') return '/';
  return path.startsWith('/index/') ? path.slice('/index'.length) : path;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
