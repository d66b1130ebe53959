/**
 * Compares this package's cacheHandler with Next.js's own file cache and with
 * @fortedigital/nextjs-cache-handler on Redis: two `next start` on one machine for each.
 *
 *	npm ci && npm run build --prefix ../..        once; wrk and redis-server are packages of Debian
 *	node run.mjs build [VARIANT...]               builds the site for each
 *	node run.mjs [VARIANT...]                     file, redis, table, table-1s; default: all
 *
 * A DynamoDB and an S3 server are named by BENCH_DYNAMODB and BENCH_S3 (with BENCH_S3_ACCESS_KEY and
 * BENCH_S3_SECRET_KEY); a table and a bucket are created on them. Each variant is measured for SECONDS (2) in each of
 * ROUNDS (5), in turn; the medians are printed. All processes share one machine: compare the variants of one run, not the
 * rates with others. "Timed renders" are the renders of a page that expires every two seconds, by both servers in 13 seconds.
 */

import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const here = fileURLToPath(new URL('.', import.meta.url));
const next = join(here, 'node_modules/next/dist/bin/next');
const handler = new URL('../../dist/next/index.js', import.meta.url);
const require = createRequire(handler);
const run = promisify(execFile);
const seconds = Number(process.env.SECONDS ?? 2);
const rounds = Number(process.env.ROUNDS ?? 5);
const connections = 8;

/** The environment of each variant; `build` is the variant whose build it uses. */
const variants = {
  file: { build: 'file', environment: {} },
  redis: { build: 'redis', environment: {} },
  table: { build: 'table', environment: {} },
  'table-1s': { build: 'table', environment: { BENCH_TRUST_SECONDS: '1' } },
};

const [command, ...names] = process.argv.slice(2);
if (command === 'build') await buildAll(names.length > 0 ? names : ['file', 'redis', 'table']);
else await measureAll(command ? [command, ...names] : Object.keys(variants));

async function buildAll(builds) {
  for (const variant of builds) {
    const environment = {
      ...process.env,
      BENCH_VARIANT: variant,
      BENCH_HANDLER: handler.href,
      NEXT_TELEMETRY_DISABLED: '1',
    };
    await run(process.execPath, [next, 'build'], { cwd: here, env: environment, maxBuffer: 1 << 24 });
    console.error(`built ${variant}`);
  }
}

async function measureAll(chosen) {
  const folder = await mkdtemp(join(tmpdir(), 'next-bench-'));
  const stores = await startStores(folder);
  const sides = [];
  try {
    for (const name of chosen) sides.push(await startSide(name, stores, folder));
    // Rows are kept in memory from ten seconds after the start of a server.
    const duration = 13;
    const timed = await Promise.all(sides.map((side) => expiries(side, duration)));
    for (let round = 0; round < rounds; round++) for (const side of sides) await measure(side, stores);
    console.log('variant    visits/s   p99 ms   CPU µs/visit   calls/visit   renders at start   timed renders');
    for (const [i, side] of sides.entries()) console.log(row(side, timed[i]));
  } finally {
    for (const { servers } of sides) for (const { child } of servers) child.kill('SIGKILL');
    await stores.stop();
    await rm(folder, { recursive: true });
  }
}

/** Formats the medians of the rounds. */
function row({ name, loads, atStart }, timed) {
  const of = (member) => median(loads.map((load) => load[member]));
  const calls = name === 'file' ? 'files' : of('calls').toFixed(4);
  const columns = [of('rate').toFixed(0), of('p99').toFixed(1), of('cpu').toFixed(0), calls, String(atStart)];
  columns.push(String(timed));
  const widths = [8, 8, 14, 13, 18, 15];
  return name.padEnd(11) + columns.map((text, i) => text.padStart(widths[i])).join(' ');
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
}

/** Starts Redis, and creates a table and a bucket. */
async function startStores(folder) {
  const port = await freePort();
  const redis = spawn('redis-server', ['--port', String(port), '--save', '', '--dir', folder], { stdio: 'ignore' });
  const { DynamoDBClient, CreateTableCommand, DeleteTableCommand } = require('@aws-sdk/client-dynamodb');
  const { S3Client, CreateBucketCommand } = require('@aws-sdk/client-s3');
  const name = `next-bench-${randomUUID()}`;
  const aws = {
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: process.env.BENCH_S3_ACCESS_KEY ?? 'any',
    AWS_SECRET_ACCESS_KEY: process.env.BENCH_S3_SECRET_KEY ?? 'anysecret',
    AWS_ENDPOINT_URL_DYNAMODB: process.env.BENCH_DYNAMODB ?? 'http://127.0.0.1:8000',
    AWS_ENDPOINT_URL_S3: process.env.BENCH_S3 ?? 'http://127.0.0.1:9000',
  };
  Object.assign(process.env, aws);
  const ddb = new DynamoDBClient({});
  const keys = ['pk', 'sk'];
  const table = {
    TableName: name,
    BillingMode: 'PAY_PER_REQUEST',
    KeySchema: keys.map((AttributeName, i) => ({ AttributeName, KeyType: i === 0 ? 'HASH' : 'RANGE' })),
    AttributeDefinitions: keys.map((AttributeName) => ({ AttributeName, AttributeType: 'S' })),
  };
  await ddb.send(new CreateTableCommand(table));
  await new S3Client({ forcePathStyle: true }).send(new CreateBucketCommand({ Bucket: name }));
  return {
    environment: {
      ...aws,
      FACETHEORY_CACHE_TABLE_NAME: name,
      FACETHEORY_CACHE_BUCKET: name,
      REDIS_URL: `redis://127.0.0.1:${port}`,
    },
    redis: port,
    async stop() {
      redis.kill();
      await ddb.send(new DeleteTableCommand({ TableName: name }));
    },
  };
}

/** Starts two servers, and counts what they render of the pages of the build. */
async function startSide(name, stores, folder) {
  const { build, environment } = variants[name];
  const renderings = join(folder, `renderings-${name}`);
  const env = {
    ...process.env,
    ...stores.environment,
    ...environment,
    FACETHEORY_CACHE_TENANT: name,
    BENCH_VARIANT: build,
    BENCH_HANDLER: handler.href,
    BENCH_RENDERINGS: renderings,
    NODE_ENV: 'production',
  };
  const servers = await Promise.all([startServer(env), startServer(env)]);
  for (const { url } of servers) for (let i = 0; i < 20; i++) await visit(`${url}/hot/${i}`);
  return { name, servers, renderings, atStart: await count(renderings, 'hot'), loads: [] };
}

/** Measures one round of visits to one page, on both servers at the same time. */
async function measure({ name, servers, loads }, stores) {
  await callsOf(name, stores, servers);
  const before = await cpuOf(servers);
  const both = await Promise.all(servers.map(({ url }) => load(`${url}/hot/0`)));
  const visits = both.reduce((sum, { requests }) => sum + requests, 0);
  loads.push({
    rate: both.reduce((sum, { rate }) => sum + rate, 0),
    p99: Math.max(...both.map(({ p99 }) => p99)),
    cpu: ((await cpuOf(servers)) - before) / visits,
    calls: (await callsOf(name, stores, servers)) / visits,
  });
}

/** Visits a page that expires every two seconds on both servers, and returns how often it was rendered. */
async function expiries({ servers, renderings }, duration) {
  const until = Date.now() + duration * 1000;
  const visitor = async ({ url }) => {
    while (Date.now() < until) {
      await visit(`${url}/timed`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  await Promise.all(servers.map(visitor));
  return count(renderings, 'timed');
}

async function count(file, name) {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.split('\n').filter((line) => line === name).length;
}

/** The calls to the store since the last call of this function. */
async function callsOf(name, stores, servers) {
  if (name === 'file') return 0;
  if (name !== 'redis') {
    const counts = await Promise.all(servers.map(async ({ url }) => Number(await visit(`${url}/api/reads`))));
    return counts.reduce((sum, n) => sum + n, 0);
  }
  const { stdout } = await run('redis-cli', ['-p', String(stores.redis), 'info', 'commandstats']);
  await run('redis-cli', ['-p', String(stores.redis), 'config', 'resetstat']);
  const commands = [...stdout.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)];
  return commands
    .filter(([, of]) => !/^(info|config|ping|client|hello)/.test(of))
    .reduce((sum, [, , n]) => sum + Number(n), 0);
}

async function load(url) {
  const flags = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', url];
  const { stdout } = await run('wrk', flags);
  const [, n, unit] = /99%\s+([\d.]+)(us|ms|s)/.exec(stdout);
  if (/Non-2xx/.test(stdout)) throw new Error(stdout);
  return {
    rate: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)[1]),
    requests: Number(/(\d+) requests in/.exec(stdout)[1]),
    p99: Number(n) * { us: 0.001, ms: 1, s: 1000 }[unit],
  };
}

/** The CPU time that the servers have used, in microseconds. */
async function cpuOf(servers) {
  const ticks = await Promise.all(
    servers.map(async ({ child }) => {
      const fields = (await readFile(`/proc/${child.pid}/stat`, 'utf8')).split(') ')[1].split(' ');
      return Number(fields[11]) + Number(fields[12]);
    }),
  );
  return ticks.reduce((sum, n) => sum + n, 0) * 10_000;
}

async function visit(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: status ${answer.status}`);
  return answer.text();
}

async function startServer(env) {
  const port = await freePort();
  const flags = ['start', '--hostname', '127.0.0.1', '--port', String(port)];
  const child = spawn(process.execPath, [next, ...flags], { cwd: here, env, stdio: ['ignore', 'ignore', 'inherit'] });
  const url = `http://127.0.0.1:${port}`;
  for (let i = 0; ; i++) {
    if (
      await fetch(`${url}/api/reads`).then(
        ({ ok }) => ok,
        () => false,
      )
    )
      return { child, url };
    if (child.exitCode !== null || i > 300) throw new Error('next start does not answer');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
