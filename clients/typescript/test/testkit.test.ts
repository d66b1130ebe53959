/** The engine that users start in their tests. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { ListTablesCommand } from '@aws-sdk/client-dynamodb';

import {
  defineModel,
  InvalidInputError,
  ItemNotFoundError,
  LeaseHeldError,
  LeaseManager,
  TheorydbClient,
} from '../src/index.js';
import { startDynamoDB } from '../src/testkit/index.js';

const binary = process.env['ISR_TEST_ISR'];
const skip = binary ? false : 'ISR_TEST_ISR names no binary of isr; ./test sets it';
const patient = { binary, timeoutMs: 300_000 };

const song = defineModel({
  name: 'Song',
  table: { name: 'songs' },
  keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
  attributes: [
    { attribute: 'pk', type: 'S' },
    { attribute: 'sk', type: 'S' },
  ],
});

/** Waits until nothing answers at an endpoint. */
async function gone(endpoint: string): Promise<void> {
  for (const deadline = Date.now() + 120_000; Date.now() < deadline; await setTimeout(50)) {
    const answered = await fetch(endpoint).then(
      () => true,
      () => false,
    );
    if (!answered) return;
  }
  assert.fail(`${endpoint} still answers`);
}

/** Writes a program that is executed instead of isr. */
async function program(t: TestContext, text: string): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'testkit-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'isr');
  await writeFile(file, `#!/bin/sh\n${text}\n`);
  await chmod(file, 0o755);
  return file;
}

test('tests get engines of their own, with the conditions of DynamoDB', { skip }, async () => {
  let endpoint = '';
  {
    await using one = await startDynamoDB(patient);
    await using other = await startDynamoDB(patient);
    endpoint = one.endpoint;
    assert.match(endpoint, /^http:\/\/127\.0\.0\.1:\d+$/);
    assert.notEqual(endpoint, other.endpoint);
    assert.equal(one.environment['AWS_ENDPOINT_URL_DYNAMODB'], endpoint);
    const client = new TheorydbClient(one.client, { models: [song] });
    await client.createTable('Song');
    await client.create('Song', { pk: 'a', sk: 'b' });
    await assert.rejects(client.get('Song', { pk: 'a', sk: 'c' }), ItemNotFoundError);
    const leases = new LeaseManager(one.client, 'songs');
    await leases.acquire('job', { leaseSeconds: 60 });
    await assert.rejects(leases.acquire('job', { leaseSeconds: 60 }), LeaseHeldError);
    assert.deepEqual((await other.client.send(new ListTablesCommand({}))).TableNames, []);
    await other.stop();
    await other.stop();
  }
  await gone(endpoint);
});

test('the variables of isr do not configure it', { skip }, async (t) => {
  for (const [name, value] of [
    ['ISR_LISTEN', '127.0.0.1:1'],
    ['ISR_DYNAMODB_FAULT', 'throttle=1'],
    ['ISR_BINARY', binary],
  ]) {
    process.env[name as string] = value;
    t.after(() => delete process.env[name as string]);
  }
  await using dynamodb = await startDynamoDB({ timeoutMs: 300_000 });
  assert.deepEqual((await dynamodb.client.send(new ListTablesCommand({}))).TableNames, []);
});

test('a signal ends it', { skip }, async () => {
  const stop = new AbortController();
  const { endpoint } = await startDynamoDB({ ...patient, signal: stop.signal });
  stop.abort();
  await gone(endpoint);
  await assert.rejects(startDynamoDB({ ...patient, signal: AbortSignal.abort(new Error('no time')) }), /no time/);
});

test('it ends with the process that started it, and does not keep it running', { skip }, async (t) => {
  const module = pathToFileURL(path.join(import.meta.dirname, '../src/testkit/index.js'));
  const start = `const { startDynamoDB } = await import('${module}');
    const { endpoint } = await startDynamoDB({ binary: process.argv[1], timeoutMs: 300_000 });
    console.log(endpoint);`;
  for (const [how, code] of [
    ['ends', start],
    ['SIGKILL', `${start} setInterval(() => {}, 1000);`],
    ['SIGTERM', `${start} setInterval(() => {}, 1000);`],
  ] as const) {
    await t.test(how, async () => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', code, binary ?? ''], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = once(child, 'exit');
      const [endpoint] = await once(child.stdout.setEncoding('utf8'), 'data');
      if (how !== 'ends') child.kill(how);
      const [status] = await exited;
      assert.equal(status, how === 'ends' ? 0 : null);
      await gone(String(endpoint).trim());
    });
  }
});

test('a program that is missing is named, with what to do', async () => {
  const missing = async (binary: string, expected: RegExp) =>
    assert.rejects(startDynamoDB({ binary }), (error: Error) => {
      assert.ok(error instanceof InvalidInputError, String(error));
      assert.match(error.message, expected);
      assert.match(error.message, /go build \.\/cmd\/isr.*ISR_BINARY/);
      return true;
    });
  await missing('isr-that-is-not-installed', /"isr-that-is-not-installed" was not found: it is not in PATH/);
  await missing('/nowhere/isr', /it does not exist, or is not executable/);
  await missing(import.meta.filename, /not executable/);
});

test('the output of a program that does not start is in the error', async (t) => {
  const failing = await program(t, 'echo "isr: the address is taken" >&2; exit 3');
  await assert.rejects(startDynamoDB({ binary: failing }), /ended with status 3 .*the address is taken/);
  const silent = await program(t, 'exec sleep 1000');
  await assert.rejects(startDynamoDB({ binary: silent, timeoutMs: 200 }), /did not answer within 200 ms/);
});

test('invalid options are refused', async () => {
  for (const options of [{ port: 8000 }, { timeoutMs: 0 }, { timeoutMs: '1' }, null]) {
    await assert.rejects(startDynamoDB(options as never), InvalidInputError);
  }
});
