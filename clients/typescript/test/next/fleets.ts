/** Fleets of real Next.js servers for tests, on the engines in turn. */

import { connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';

import { type Cleanup, type Engine, engines, newTable, noEngine, type TestTable } from '../engines.js';
import { type Fleet, isNext15, newFleet, noNext, type Server } from './servers.js';
import { newBucket, noBucket, type TestBucket } from './stores.js';

export const missing = noNext ?? noBucket ?? (engines().length === 0 ? noEngine : undefined);

/** Two servers of one fleet. */
export interface Pair {
  two: [Server, Server];
  fleet: Fleet;
}

/** A fleet with its stores. */
export interface Stores {
  fleet: Fleet;
  table: TestTable;
  bucket: TestBucket;
}

/** Defines a test on an engine. */
export function onEngine(
  name: string,
  engine: Engine | undefined,
  body: (engine: Engine, t: TestContext) => Promise<void>,
): void {
  if (missing || !engine) {
    test(name, { skip: missing ?? noEngine });
    return;
  }
  test(`${name} (${engine.name})`, { timeout: 600_000 }, (t) => body(engine, t));
}

export async function newStores(t: Cleanup, engine: Engine, folder?: string): Promise<Stores> {
  const table = await newTable(t, engine);
  const bucket = await newBucket(t);
  return { fleet: await newFleet(t, table, bucket, folder), table, bucket };
}

/** Runs a test, and adds to its failure what the servers of the fleet have printed. */
export async function withOutput(fleet: Fleet, body: () => Promise<void>): Promise<void> {
  try {
    await body();
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error}\n${fleet.output()}`, { cause: error });
  }
}

/** Starts a pair whose leases are long enough for a busy machine, or short enough to wait for. */
async function newPair(t: Cleanup, engine: Engine, leaseSeconds: number): Promise<Pair> {
  const { fleet } = await newStores(t, engine);
  const environment = { SITE_LEASE_SECONDS: String(leaseSeconds) };
  const [a, b] = await Promise.all([fleet.start(environment), fleet.start(environment)]);
  return { two: [a, b], fleet };
}

let turn = 0;

/**
 * Returns the engines in turn: Next.js behaves the same on all of them, and the tests of the
 * handler run on every engine.
 */
export function nextEngine(): Engine | undefined {
  return engines()[turn++ % engines().length];
}

/** The releases of Next.js that a test runs on, by their major version. */
export type Releases = readonly (15 | 16)[];

/** Reports whether a test runs now. */
export function isOn(releases: Releases): boolean {
  return releases.includes(isNext15 ? 15 : 16);
}

/** Defines a test with its own stores, and servers that it starts itself. */
export function onFleet(
  name: string,
  body: (stores: Stores, t: TestContext) => Promise<void>,
  releases: Releases = [16],
): void {
  if (!isOn(releases)) return;
  onEngine(name, nextEngine(), async (engine, t) => {
    const stores = await newStores(t, engine);
    await withOutput(stores.fleet, () => body(stores, t));
  });
}

/** Defines a test with its own pair of servers, which it may kill. */
export function onOwnPair(name: string, body: (pair: Pair) => Promise<void>, releases: Releases = [16]): void {
  if (!isOn(releases)) return;
  onEngine(name, nextEngine(), async (engine, t) => {
    const pair = await newPair(t, engine, 8);
    await withOutput(pair.fleet, () => body(pair));
  });
}

/** The pair that tests share. */
let shared: Promise<Pair> | undefined;
const cleanups: (() => unknown)[] = [];

/** Stops what tests share. */
export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.reverse()) await cleanup();
}

/** Defines a test on the shared pair of servers. Each test has its own pages and tags. */
export function onPair(name: string, body: (pair: Pair) => Promise<void>, releases: Releases = [15, 16]): void {
  if (!isOn(releases)) return;
  onEngine(name, engines()[0], async (engine) => {
    const suite: Cleanup = { after: (work) => void cleanups.push(work as () => unknown) };
    shared ??= newPair(suite, engine, 15);
    const pair = await shared;
    await withOutput(pair.fleet, () => body(pair));
  });
}

/** A TCP proxy to a server. */
export interface Proxy {
  url: string;
  /** Closes all connections and refuses new ones, until `restore`. */
  cut(): void;
  /** Accepts connections and requests, but answers nothing, until `restore`, which closes them. */
  hang(): void;
  restore(): void;
}

/** Starts a TCP proxy to a server. */
export async function newProxy(t: Cleanup, endpoint: string): Promise<Proxy> {
  const { hostname, port } = new URL(endpoint);
  const sockets = new Set<Socket>();
  let state: 'open' | 'cut' | 'hanging' = 'open';
  const server = createServer((near) => {
    if (state === 'cut') {
      near.destroy();
      return;
    }
    if (state === 'hanging') {
      sockets.add(near);
      near.on('error', () => {});
      return;
    }
    const far = connect(Number(port), hostname);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {}); // 'close' follows
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const turn = (to: typeof state) => {
    state = to;
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  const cut = () => turn('cut');
  t.after(() => {
    cut();
    server.close();
  });
  const address = server.address() as { port: number };
  return { url: `http://127.0.0.1:${address.port}`, cut, hang: () => turn('hanging'), restore: () => turn('open') };
}
