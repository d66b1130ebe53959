import { InvalidInputError } from '../errors.js';
import type { Answer, CacheControl } from './contract.js';

/**
 * The release of Next.js that runs in this process, and what its releases do differently.
 *
 * Next.js 16.4 takes the lifetime of a page from the answer to a look-up. Earlier releases ignore it
 * and use what they remember in this process of their own last render of the page, else the manifest
 * of the build, else a second. A page that the answer calls stale is then fresh for them, and never
 * regenerated. So the lifetime of each answer is written where they remember it; until 15.3 no
 * program can reach that, and a `lastModified` of -1 makes them regenerate the page.
 *
 * Until 16.2 Next.js serves a page with a `lastModified` of -1 while it regenerates it. So a page that must
 * not be served is a miss for the releases before 16.4.
 */

/** The major versions of Next.js that this package supports; `peerDependencies` of package.json has the same. */
const supported: readonly number[] = [15, 16];

/** The first release, by major and minor version, that takes lifetimes from answers. */
const readsLifetimes: readonly [number, number] = [16, 4];

/** How many lifetimes are kept in the memory of Next.js. */
const maxLifetimes = 10_000;

/** The modules of Next.js that every server and build has loaded, and among them the one that remembers lifetimes. */
const modulesOfNext = /^(.*[\\/])dist[\\/]server[\\/]lib[\\/]incremental-cache[\\/]([^\\/]+)$/;
const lifetimesModule = 'shared-cache-controls.external.js';

/** The CommonJS modules of a process by their files. */
type Modules = Readonly<
  Record<string, { exports?: { SharedCacheControls?: { cacheControls?: unknown } } } | undefined>
>;

/** The release of Next.js that runs in this process. */
export class Release {
  /** Its version; undefined: unknown, and treated as the newest. */
  readonly #version: string | undefined;
  /** The lifetimes that Next.js remembers, by the names of pages. */
  readonly #remembered: Map<string, CacheControl> | undefined;
  /** The names of the pages whose lifetimes were written, the oldest first. */
  readonly #written = new Set<string>();

  /** Finds the release among the loaded modules. @throws InvalidInputError if it is not supported */
  constructor(loaded: Modules = loadedModules()) {
    for (const [file, module] of Object.entries(loaded)) {
      const [, folder, name] = modulesOfNext.exec(file) ?? [];
      if (folder === undefined) continue;
      this.#version ??= versionIn(folder);
      const remembered = name === lifetimesModule && module?.exports?.SharedCacheControls?.cacheControls;
      if (remembered instanceof Map) this.#remembered = remembered;
    }
    if (this.#version !== undefined) checkVersion(this.#version);
  }

  /**
   * Returns an answer about a page as this release understands it. The look-up must end with it: Next.js
   * reads what it remembers next.
   */
  adapt(key: string, answer: Answer, isStale: boolean): Answer | null {
    if (!this.#isEarly()) return answer;
    // Without a value Next.js would answer again that the page does not exist, as the build found.
    if (answer.lastModified === -1) return answer.value === null ? answer : null;
    if (!this.#remembered) return isStale ? { ...answer, lastModified: -1 } : answer;
    if (answer.cacheControl) this.#tell(this.#remembered, nameOf(key), answer.cacheControl);
    return answer;
  }

  #tell(remembered: Map<string, CacheControl>, name: string, lifetime: CacheControl): void {
    remembered.set(name, lifetime);
    this.#written.delete(name);
    this.#written.add(name);
    for (const oldest of this.#written) {
      if (this.#written.size <= maxLifetimes) return;
      this.#written.delete(oldest);
      remembered.delete(oldest);
    }
  }

  /** Reports whether Next.js ignores the lifetimes of answers. */
  #isEarly(): boolean {
    const [major = 0, minor = 0] = (this.#version ?? '').split('.').map((part) => Number.parseInt(part, 10));
    const [firstMajor, firstMinor] = readsLifetimes;
    return this.#version !== undefined && (major < firstMajor || (major === firstMajor && minor < firstMinor));
  }
}

/** @throws InvalidInputError if a version of Next.js is not supported */
export function checkVersion(version: string): void {
  if (supported.includes(Number.parseInt(version, 10))) return;
  throw new InvalidInputError(
    `@facetheory/tabletheory/next supports Next.js ${supported.join(' and ')}: this is Next.js ${version}. Install a supported release, or remove cacheHandler from next.config`,
  );
}

/** Returns the name of a page in the memory of Next.js: its key; in releases whose keys are paths, the path of the visitor. */
function nameOf(key: string): string {
  return key.startsWith('/route-cache/') ? key : key.replace(/(?:\/index)?\/?$/, '') || '/';
}

/** Returns the modules of this process; none in the edge runtime, into whose bundles this module gets. */
function loadedModules(): Modules {
  return process.env['NEXT_RUNTIME'] === 'edge'
    ? {}
    : process.getBuiltinModule('node:module').createRequire(process.execPath).cache;
}

/** Returns the version of the package in a folder if that is Next.js. */
function versionIn(folder: string): string | undefined {
  const fs = process.env['NEXT_RUNTIME'] === 'edge' ? undefined : process.getBuiltinModule('node:fs');
  try {
    const { name, version } = JSON.parse(fs?.readFileSync(`${folder}package.json`, 'utf8') ?? '{}');
    return name === 'next' && typeof version === 'string' ? version : undefined;
  } catch {
    return undefined; // an incomplete copy, as `output: 'standalone'` makes them
  }
}
