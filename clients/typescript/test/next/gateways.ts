/** Servers of `isr serve` for tests, in front of an origin that may be replaced. */

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UpdateTimeToLiveCommand } from '@aws-sdk/client-dynamodb';

import type { Cleanup, TestTable } from '../engines.js';
import { freePort, type Server, until } from './servers.js';
import type { TestBucket } from './stores.js';

const isr = process.env['ISR_TEST_ISR'];

/** The reason for skipping tests that need a server. */
export const noIsr = isr ? undefined : 'ISR_TEST_ISR names no binary of isr; ./test sets it';

/** The token of the admin APIs of the tests. */
export const token = 'a-token-of-the-tests';

/** An `isr serve --preset next`. */
export interface Gateway extends Server {
  readonly adminUrl: string;
  /** Sends later requests to another origin, as a load balancer does during a deployment. */
  moveTo(origin: string): void;
}

/** Starts a server with a store of its own, or on a table and a bucket. */
export async function startGateway(
  t: Cleanup,
  origin: string,
  shared?: { table: TestTable; bucket: TestBucket },
): Promise<Gateway> {
  const folder = await mkdtemp(join(tmpdir(), 'next-gateway-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const balancer = await startBalancer(t, origin);
  const [port, admin] = [await freePort(), await freePort()];
  if (shared) {
    const TimeToLiveSpecification = { AttributeName: 'ttl', Enabled: true };
    const { ddb, tableName: TableName } = shared.table;
    await ddb.send(new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification }));
  }
  const stores = shared
    ? [
        ...['--table', shared.table.tableName, '--dynamodb-endpoint', shared.table.engine.endpoint],
        ...['--bucket', shared.bucket.name, '--s3-endpoint', shared.bucket.endpoint],
      ]
    : [];
  const listen = ['--listen', `127.0.0.1:${port}`, '--admin', `127.0.0.1:${admin}`, '--data', join(folder, 'data')];
  const child = spawn(
    isr ?? '',
    ['serve', '--preset', 'next', '--origin', balancer.url, '--store-timeout', '20s', ...listen, ...stores],
    {
      cwd: folder,
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        ISR_ADMIN_TOKEN: token,
        AWS_REGION: 'us-east-1',
        AWS_ACCESS_KEY_ID: shared?.bucket.accessKeyId ?? 'any',
        AWS_SECRET_ACCESS_KEY: shared?.bucket.secretAccessKey ?? 'any',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += chunk));
  const kill = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  t.after(kill);
  await until('isr serves', () => {
    if (child.exitCode !== null) throw new Error(`isr serve has exited:\n${output}`);
    return output.includes('serving http');
  });
  return {
    url: `http://127.0.0.1:${port}`,
    adminUrl: `http://127.0.0.1:${admin}`,
    output: () => output,
    kill,
    moveTo: balancer.moveTo,
  };
}

/** Starts a proxy to one origin at a time. */
async function startBalancer(t: Cleanup, first: string): Promise<{ url: string; moveTo(origin: string): void }> {
  let origin = first;
  const server = createServer((incoming, response) => {
    const { method, headers, url = '/' } = incoming;
    const sent = request(new URL(url, origin), { method, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
    });
    sent.on('error', () => response.destroy());
    incoming.pipe(sent);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    moveTo: (to) => {
      origin = to;
    },
  };
}
