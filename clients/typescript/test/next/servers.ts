/** Real processes: the site of the tests, built once, and served by any number of `next start`. */

import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';

import { markKey } from '../../src/isr/mark.js';
import type { Cleanup, TestTable } from '../engines.js';
import type { TestBucket } from './stores.js';

/** Tests run from `build/test/next`, in any copy of the package; the site is next to their sources. */
const compiled = fileURLToPath(new URL('../../src', import.meta.url));
const handlers = {
  SITE_HANDLER: new URL('../../src/next/index.js', import.meta.url).href,
  SITE_GATEWAY: new URL('../../src/next/gateway/index.js', import.meta.url).href,
  SITE_USE_CACHE: new URL('../../src/next/usecache/index.js', import.meta.url).href,
};
const sources =
  process.env['ISR_TEST_NEXT_CACHE'] ?? fileURLToPath(new URL('../../../test/next/site', import.meta.url));

/** The tests run on Next.js 15, as next15.test.ts makes them. */
export const isNext15 = process.env['ISR_TEST_NEXT_15'] === '1';
/** The site: of Next.js 15 it is a directory with a middleware, into which the sources of the other one are copied. */
const site = isNext15 ? fileURLToPath(new URL('../../../test/next/site15', import.meta.url)) : sources;
/** The site with `cacheComponents`, a directory of the other one, whose packages it uses. */
export const componentsSite = join(site, 'components');
/** The sites with a proxy on Node.js and with one on the edge runtime, as the other one. */
export const proxiedSite = join(site, 'proxied');
export const edgeSite = join(site, 'edge');
const next = join(site, 'node_modules/next/dist/bin/next');

/** The reason for skipping tests that need Next.js; undefined if it is installed. */
export const noNext = existsSync(next)
  ? undefined
  : `${site} has no node_modules: npm ci there, or ISR_TEST_NEXT_CACHE names another copy; ./test installs it`;

/** The exit status of a build, and what it printed. */
export interface Build {
  status: number | null;
  output: string;
}

/** The deployments of the site, each with its own build, by the value of SITE_DEPLOYMENT; the default is first. */
export type Deployment = 'one' | 'two';
const deployments: readonly Deployment[] = isNext15 ? ['one'] : ['one', 'two'];

/**
 * Builds the deployments of the site, unless the last builds had the same inputs: the site's sources
 * and dependencies, the compiled handler, which takes part in the builds, and the version of Node.js.
 * The builds get no table: they need none.
 */
export async function buildSite(): Promise<void> {
  if (isNext15) {
    await installPackage();
    for (const name of ['app', 'pages', 'public', 'control.js', 'next.config.mjs'])
      await cp(join(sources, name), join(site, name), { recursive: true });
  }
  await unlessBuilt(site, async () => {
    for (const deployment of deployments) await runBuild(site, [], { SITE_DEPLOYMENT: deployment }).then(succeeded);
  });
}

/** Builds the site with `cacheComponents`, as {@link buildSite} does. */
export async function buildComponents(): Promise<void> {
  await unlessBuilt(componentsSite, async () => {
    await runBuild(componentsSite).then(succeeded);
  });
}

/**
 * Builds the sites with a proxy, as {@link buildSite} does. Next.js bundles the handler into the proxies, so that
 * they import the package as users do.
 */
export async function buildProxied(): Promise<void> {
  await installPackage();
  await unlessBuilt(proxiedSite, () => runBuild(proxiedSite).then(succeeded), site);
  await unlessBuilt(edgeSite, () => runBuild(edgeSite, ['--webpack']).then(succeeded), site);
}

/** Installs the package as the tests have compiled it, with what it depends on. */
async function installPackage(): Promise<void> {
  const folder = fileURLToPath(new URL('../../..', import.meta.url));
  const installed = join(site, 'node_modules/@facetheory/tabletheory');
  await cp(compiled, join(installed, 'dist'), { recursive: true });
  for (const name of ['package.json', 'node_modules/canonicalize'])
    await cp(join(folder, name), join(installed, name), { recursive: true });
}

async function unlessBuilt(folder: string, build: () => Promise<void>, all = folder): Promise<void> {
  const file = join(folder, '.next/test-build.json');
  const inputs = await hashOf(all, compiled);
  if (existsSync(file) && (await readFile(file, 'utf8')) === inputs) return stampAnew(folder);
  await rm(join(folder, '.next'), { recursive: true, force: true });
  await build();
  await writeFile(file, inputs);
}

/** Makes builds that are used again begin now: their pages are fresh for an hour from their stamps. */
async function stampAnew(folder: string): Promise<void> {
  const files = await readdir(join(folder, '.next'), { recursive: true });
  for (const name of files.filter((file) => file.endsWith(stampName))) // copies in `standalone` too
    await writeFile(join(folder, '.next', name), JSON.stringify({ startedAtMs: Date.now() }));
}

function succeeded({ status, output }: Build): void {
  if (status !== 0) throw new Error(`next build failed:\n${output}`);
}

/** The file of a build that has the time at which it began. */
const stampName = 'server/route-cache/facetheory-build.json';

/** When the build of a deployment began, in epoch milliseconds, by its own stamp. */
export async function buildStartedAt(deployment: Deployment): Promise<number> {
  const stamp = await readFile(join(distOf(deployment), stampName), 'utf8');
  return JSON.parse(stamp).startedAtMs;
}

/** Reads a file of the build of a deployment. */
export function readBuilt(deployment: Deployment, name: string): Promise<Buffer> {
  return readFile(join(distOf(deployment), name));
}

/** The distDir of a deployment, as the site's next.config.mjs sets it. */
function distOf(deployment: Deployment): string {
  return deployment === 'one' ? join(site, '.next') : join(site, '.next', deployment);
}

/**
 * Runs the second half of `next build`, which renders pages, on a copy of what the first half
 * has compiled, with the handler in cacheHandlers.
 */
export async function regenerateWithPlural(): Promise<Build> {
  const copy = join(site, '.next/plural'); // what the site's next.config.mjs sets
  await rm(copy, { recursive: true, force: true });
  const folder = await mkdtemp(join(tmpdir(), 'next-plural-'));
  try {
    const others = ['cache', ...deployments].map((name) => join(site, '.next', name));
    const filter = (source: string) => !others.includes(source);
    await cp(join(site, '.next'), folder, { recursive: true, filter });
    await cp(folder, copy, { recursive: true });
  } finally {
    await rm(folder, { recursive: true });
  }
  return runBuild(site, ['--experimental-build-mode', 'generate'], { SITE_PLURAL: '1' });
}

/** Hashes the files of directories, without installed and built ones. */
async function hashOf(...folders: string[]): Promise<string> {
  const hash = createHash('sha256').update(process.version);
  for (const folder of folders) {
    for (const file of (await filesOf(folder)).sort()) {
      hash
        .update(`${file}\0`)
        .update(await readFile(file))
        .update('\0');
    }
  }
  return hash.digest('hex');
}

/** Returns the files of a directory, without installed and built ones, which come and go while other tests build. */
async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const found = entries.map(async (entry) => {
    const name = join(folder, entry.name);
    if (!entry.isDirectory()) return [name];
    return ['node_modules', '.next'].includes(entry.name) ? [] : filesOf(name);
  });
  return (await Promise.all(found)).flat();
}

/** Runs `next build`, for at most fifteen minutes. */
async function runBuild(cwd: string, flags: string[] = [], environment: Record<string, string> = {}): Promise<Build> {
  const child = spawn(process.execPath, [next, 'build', ...flags], {
    cwd,
    env: { ...bare(), ...handlers, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 900_000,
  });
  const output = outputOf(child);
  const status = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return { status, output: output() };
}

/** Collects what a process prints. */
function outputOf(child: ChildProcess): () => string {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += chunk));
  return () => output;
}

/** The environment without variables that configure a store, or that show Next.js that a test runs. */
function bare(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(AWS_|FACETHEORY_|NODE_|NEXT_)/.test(name));
  return { ...Object.fromEntries(kept), NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' };
}

/** Servers on one table and one bucket. */
export interface Fleet {
  /** Starts a server and waits until it answers. */
  start(environment?: Record<string, string>): Promise<Server>;
  /** The renderings of a page so far, in order. */
  renderings(name: string): Promise<{ pid: number }[]>;
  /** Blocks renderings of a page while the gate is closed. */
  gate(name: string, closed: boolean): Promise<void>;
  /** Makes renderings of a page fail. */
  fail(name: string, fails: boolean): Promise<void>;
  /**
   * Requests a revalidation from a server and waits until it is in the table: Next.js
   * responds before it calls the handler.
   */
  revalidate(server: Server, what: Revalidation): Promise<void>;
  /** The responses of the data server by path, and below the number of requests for a path. */
  data: Map<string, string>;
  requests(path: string): number;
  /** The URL of the data server. */
  dataUrl: string;
  /** The end of what each server has printed. */
  output(): string;
}

/** What to revalidate: a path, or the layout or the route of a path, or a tag with an optional Next.js profile. */
export interface Revalidation {
  path?: string;
  type?: 'layout' | 'page';
  tag?: string;
  profile?: string;
}

/** One `next start`. */
export interface Server {
  readonly url: string;
  /** What it has printed. */
  output(): string;
  /** Kills it at once, like a crash, and waits until it has exited. */
  kill(): Promise<void>;
}

/** Creates a fleet of a site on a table and a bucket, stopped by `t`. */
export async function newFleet(t: Cleanup, table: TestTable, bucket: TestBucket, cwd = site): Promise<Fleet> {
  const folder = await mkdtemp(join(tmpdir(), 'next-fleet-'));
  const servers: Server[] = [];
  const source = await startData(t);
  const flag = (kind: string, name: string) => join(folder, `${kind}-${name.replaceAll('/', '~')}`);
  t.after(async () => {
    await Promise.all(servers.map((server) => server.kill()));
    await rm(folder, { recursive: true });
  });
  const environment = {
    ...bare(),
    ...handlers,
    SITE_CONTROL: folder,
    SITE_DATA: source.url,
    FACETHEORY_CACHE_TABLE_NAME: table.tableName,
    FACETHEORY_CACHE_BUCKET: bucket.name,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: bucket.accessKeyId,
    AWS_SECRET_ACCESS_KEY: bucket.secretAccessKey,
    AWS_ENDPOINT_URL_DYNAMODB: table.engine.endpoint,
    AWS_ENDPOINT_URL_S3: bucket.endpoint,
  };
  return {
    data: source.data,
    requests: source.requests,
    dataUrl: source.url,
    output: () => servers.map(({ url, output }) => `${url} printed:\n${output().slice(-4000)}`).join('\n'),
    async start(extra = {}) {
      const server = await startServer(cwd, { ...environment, ...extra });
      servers.push(server);
      return server;
    },
    renderings: (name) => renderingsIn(join(folder, 'renderings'), name),
    gate: (name, closed) => setFlag(flag('gate', name), closed),
    fail: (name, fails) => setFlag(flag('fail', name), fails),
    async revalidate(server, what) {
      const tag = what.tag ?? `_N_T_${what.path}`;
      const before = await markSequence(table, tag);
      await requestRevalidation(server, what);
      await until(`the revalidation of ${tag}`, async () => (await markSequence(table, tag)) > before);
    },
  };
}

/** The sequence of a tag's purge mark, 0 if there is none. */
async function markSequence({ ddb, tableName }: TestTable, tag: string): Promise<number> {
  const Key = { pk: { S: 'PURGE' }, sk: { S: markKey({ kind: 'tag', tenant: '', value: tag }) } };
  const { Item } = await ddb.send(new GetItemCommand({ TableName: tableName, Key, ConsistentRead: true }));
  return Number(Item?.['seq']?.N ?? 0);
}

async function setFlag(file: string, up: boolean): Promise<void> {
  if (up) await writeFile(file, '');
  else await rm(file, { force: true });
}

async function renderingsIn(file: string, page: string): Promise<{ pid: number }[]> {
  const lines = existsSync(file) ? (await readFile(file, 'utf8')).split('\n') : [];
  return lines.flatMap((line) => {
    const [pid, name] = line.split(' ');
    return name === page ? [{ pid: Number(pid) }] : [];
  });
}

/** Starts the data server that pages fetch from, and that actions write to. */
async function startData(t: Cleanup): Promise<Pick<Fleet, 'data' | 'requests'> & { url: string }> {
  const data = new Map<string, string>();
  const requests = new Map<string, number>();
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').slice(1);
    if (request.method === 'PUT') {
      void text(request).then((value) => {
        data.set(path, value);
        response.end();
      });
      return;
    }
    requests.set(path, (requests.get(path) ?? 0) + 1);
    response.end(data.get(path) ?? 'nothing');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { data, requests: (path) => requests.get(path) ?? 0, url: `http://127.0.0.1:${port}` };
}

/** What serves a site: `next start`, or with `output: 'standalone'` a program in a copy of the site. */
function programOf(folder: string, port: number): { cwd: string; args: string[]; basePath: string } {
  if (folder === proxiedSite) {
    return { cwd: join(folder, '.next/custom/standalone/proxied'), args: ['server.js'], basePath: '/shop' };
  }
  const args = [next, 'start', '--hostname', '127.0.0.1', '--port', String(port)];
  return { cwd: folder, args, basePath: '' };
}

async function startServer(folder: string, environment: NodeJS.ProcessEnv): Promise<Server> {
  for (let attempt = 1; ; attempt++) {
    const server = await tryToStart(folder, environment);
    if (server) return server;
    if (attempt === 10) throw new Error('10 free ports were taken by other programs before next start could listen');
  }
}

/** Starts a server; undefined if another program has taken its port. */
async function tryToStart(folder: string, environment: NodeJS.ProcessEnv): Promise<Server | undefined> {
  const port = await freePort();
  const { cwd, args, basePath } = programOf(folder, port);
  const child = spawn(process.execPath, args, {
    cwd,
    env: { ...environment, HOSTNAME: '127.0.0.1', PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = outputOf(child);
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  // The port may answer although it is another program's.
  const isReady = async () => /Ready in/.test(output()) && (await answers(port));
  await until(`next start on port ${port}`, async () => child.exitCode !== null || isReady());
  if (child.exitCode !== null) {
    if (/EADDRINUSE/.test(output())) return undefined;
    throw new Error(`next start has exited:\n${output()}`);
  }
  return {
    url: `http://127.0.0.1:${port}${basePath}`,
    output,
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/**
 * Returns a port on which nothing listens. It is below those that systems give to connections and to
 * listeners of port 0, so that no other program gets it before the server that is started.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve, reject) => {
      server.once('error', (failure: NodeJS.ErrnoException) =>
        failure.code === 'EADDRINUSE' ? resolve(false) : reject(failure),
      );
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}

/** Waits until a condition holds, for at most ten minutes. */
export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = Date.now() + 600_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`${what}: timeout after ten minutes`);
    await new Promise((resolve) => setTimeout(resolve, 100)); // most conditions visit servers, which takes CPU time
  }
}

/** A response of the site. */
export interface Visit {
  status: number;
  /** `x-nextjs-cache`: HIT, STALE or MISS. */
  cache: string;
  /** The rendering time that the page shows; empty if it shows none. */
  at: string;
  /** The data that the page shows. */
  shown: string;
  text: string;
  bytes: Buffer;
  headers: Headers;
}

/** Visits a page. */
export async function visit(server: Server, path: string, init: RequestInit = {}): Promise<Visit> {
  const answer = await fetch(server.url + path, { redirect: 'manual', signal: AbortSignal.timeout(300_000), ...init });
  const bytes = Buffer.from(await answer.arrayBuffer());
  const text = bytes.toString('utf8');
  return {
    status: answer.status,
    cache: answer.headers.get('x-nextjs-cache') ?? '',
    at: /<time>(\d+)<\/time>/.exec(text)?.[1] ?? '',
    shown: /<b>(.*?)<\/b>/.exec(text)?.[1] ?? '',
    text,
    bytes,
    headers: answer.headers,
  };
}

/** Requests a revalidation from a server. */
export async function requestRevalidation(server: Server, what: Revalidation): Promise<void> {
  const answer = await visit(server, '/api/revalidate', { method: 'POST', body: JSON.stringify(what) });
  if (answer.status !== 200) throw new Error(`revalidating ${JSON.stringify(what)}: status ${answer.status}`);
}
