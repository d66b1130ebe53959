/** Real processes: the site of the tests, built once, and served by `next start` as often as a test wants. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';

import type { TestTable } from '../engines.js';
import type { TestBucket } from './stores.js';

/** Tests run from `build/test/next`, wherever that is; the site is beside their sources. */
const handler = new URL('../../src/next/index.js', import.meta.url);
const site = process.env['ISR_TEST_NEXT_CACHE'] ?? fileURLToPath(new URL('../../../test/next/site', import.meta.url));
const next = join(site, 'node_modules/next/dist/bin/next');

/** Why tests that need Next.js are skipped; undefined: they are not. */
export const noNext = existsSync(next)
  ? undefined
  : `${site} has no node_modules: npm ci there, or ISR_TEST_NEXT_CACHE names another copy; ./test installs it`;

/** Builds the site, unless the last build had the same inputs. It needs no table. */
export function buildSite(): void {
  const stamp = join(site, '.next', 'test-inputs');
  const inputs = hashInputs();
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === inputs) return;
  rmSync(stamp, { force: true });
  const { status, output } = runBuild();
  if (status !== 0) throw new Error(`next build failed:\n${output}`);
  writeFileSync(stamp, inputs);
}

/** The hash of what a build depends on: Node, the site's own files, and the compiled handler. */
function hashInputs(): string {
  const hash = createHash('sha256').update(process.version);
  for (const path of [...filesIn(site), ...filesIn(fileURLToPath(new URL('../../src', import.meta.url)))]) {
    hash.update(`${path}\0`).update(readFileSync(path)).update('\0');
  }
  return hash.digest('hex');
}

/** The files of a folder and of those in it, without what is installed or built. */
function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => name !== 'node_modules' && name !== '.next')
    .flatMap((entry) => (entry.isDirectory() ? filesIn(join(folder, entry.name)) : [join(folder, entry.name)]))
    .sort();
}

/** Runs `next build`, for five minutes at most. */
export function runBuild(environment: Record<string, string> = {}): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [next, 'build'], {
    cwd: site,
    env: { ...bare(), SITE_HANDLER: handler.href, ...environment },
    encoding: 'utf8',
    timeout: 300_000,
  });
  return { status, output: `${stdout}\n${stderr}` };
}

/** The environment without what would name a store, or tell Next that it is tested. */
function bare(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(AWS_|FACETHEORY_|NODE_|NEXT_)/.test(name));
  return { ...Object.fromEntries(kept), NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' };
}

/** What the servers of one test share. */
export interface Fleet {
  /** Starts a server, and waits until it answers. */
  start(environment?: Record<string, string>): Promise<Server>;
  /** The renderings until now, as `name`, in their order. */
  made(name?: string): Promise<{ pid: number; name: string }[]>;
  /** Holds renderings up, or lets them go. */
  gate(closed: boolean): Promise<void>;
  /** Makes renderings fail, or succeed. */
  broken(is: boolean): Promise<void>;
  /**
   * Has a server say that something is to be made anew, and waits until that is in the
   * table: Next answers first, and says it then.
   */
  revalidate(server: Server, what: Revalidation): Promise<void>;
  /** What the server of the data answers, by its path, and how often it was asked. */
  data: Map<string, string>;
  asked(path: string): number;
}

/** What is to be made anew: what is at a path, or carries a tag, by a profile of Next's. */
export interface Revalidation {
  path?: string;
  tag?: string;
  profile?: string;
}

/** One `next start`. */
export interface Server {
  readonly url: string;
  readonly process: ChildProcess;
  /** What it printed. */
  output(): string;
  /** Ends it at once, as a crash does, and waits until it is gone. */
  kill(): Promise<void>;
}

/** A fleet on a table and a bucket, which is gone after the test. */
export async function newFleet(t: TestContext, table: TestTable, bucket: TestBucket): Promise<Fleet> {
  const folder = await mkdtemp(join(tmpdir(), 'next-fleet-'));
  const servers: Server[] = [];
  const source = await startData(t);
  const files = { made: join(folder, 'made'), gate: join(folder, 'gate'), broken: join(folder, 'broken') };
  t.after(async () => {
    await Promise.all(servers.map((server) => server.kill()));
    await rm(folder, { recursive: true });
  });
  const environment = {
    ...bare(),
    SITE_HANDLER: handler.href,
    SITE_MADE: files.made,
    SITE_GATE: files.gate,
    SITE_BROKEN: files.broken,
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
    ...source,
    async start(extra = {}) {
      const server = await startServer({ ...environment, ...extra });
      servers.push(server);
      return server;
    },
    made: (name) => madeIn(files.made, name),
    gate: (closed) => flag(files.gate, closed),
    broken: (is) => flag(files.broken, is),
    async revalidate(server, what) {
      const before = await sequence(table);
      await askToRevalidate(server, what);
      await until(`the revalidation of ${JSON.stringify(what)}`, async () => (await sequence(table)) > before);
    },
  };
}

async function sequence({ ddb, tableName }: TestTable): Promise<number> {
  const Key = { pk: { S: 'PURGE' }, sk: { S: 'SEQ' } };
  const { Item } = await ddb.send(new GetItemCommand({ TableName: tableName, Key, ConsistentRead: true }));
  return Number(Item?.['seq']?.N ?? 0);
}

async function flag(file: string, up: boolean): Promise<void> {
  if (up) await writeFile(file, '');
  else await rm(file, { force: true });
}

async function madeIn(file: string, name: string | undefined): Promise<{ pid: number; name: string }[]> {
  const text = existsSync(file) ? await readFile(file, 'utf8') : '';
  const all = text
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const [pid = '', made = ''] = line.split(' ');
      return { pid: Number(pid), name: made };
    });
  return name === undefined ? all : all.filter((one) => one.name === name);
}

/** A server of data that pages fetch. */
async function startData(t: TestContext): Promise<Pick<Fleet, 'data' | 'asked'> & { url: string }> {
  const data = new Map<string, string>();
  const asked = new Map<string, number>();
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').slice(1);
    asked.set(path, (asked.get(path) ?? 0) + 1);
    response.end(data.get(path) ?? 'nothing');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { data, asked: (path) => asked.get(path) ?? 0, url: `http://127.0.0.1:${port}` };
}

async function startServer(environment: NodeJS.ProcessEnv): Promise<Server> {
  const port = await freePort();
  const child = spawn(process.execPath, [next, 'start', '--hostname', '127.0.0.1', '--port', String(port)], {
    cwd: site,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += chunk));
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  await until(`next start on port ${port}`, async () => {
    if (child.exitCode !== null) throw new Error(`next start has ended:\n${output}`);
    return answers(port);
  });
  return {
    url: `http://127.0.0.1:${port}`,
    process: child,
    output: () => output,
    async kill() {
      child.kill('SIGKILL');
      await gone;
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

/** A port that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Waits until a condition holds, for 60 s at most. */
export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`${what}: not within 60 s`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** What a visitor sees. */
export interface Seen {
  status: number;
  /** `x-nextjs-cache`: HIT, STALE or MISS. */
  cache: string;
  /** When the page was made, as it says itself; empty if it does not. */
  at: string;
  /** The data that it shows. */
  says: string;
  text: string;
  bytes: Buffer;
  headers: Headers;
}

/** Visits a page. */
export async function visit(server: Server, path: string, init: RequestInit = {}): Promise<Seen> {
  const answer = await fetch(server.url + path, { redirect: 'manual', signal: AbortSignal.timeout(60_000), ...init });
  const bytes = Buffer.from(await answer.arrayBuffer());
  const text = bytes.toString('utf8');
  return {
    status: answer.status,
    cache: answer.headers.get('x-nextjs-cache') ?? '',
    at: /<time>(\d+)<\/time>/.exec(text)?.[1] ?? '',
    says: /<b>(.*?)<\/b>/.exec(text)?.[1] ?? '',
    text,
    bytes,
    headers: answer.headers,
  };
}

/** Has a server say that something is to be made anew. */
export async function askToRevalidate(server: Server, what: Revalidation): Promise<void> {
  const answer = await visit(server, '/api/revalidate', { method: 'POST', body: JSON.stringify(what) });
  if (answer.status !== 200) throw new Error(`revalidating ${JSON.stringify(what)}: status ${answer.status}`);
}
