/** A DynamoDB for tests: the embedded engine of `isr`, in memory, in a process of its own. It is the engine, not a mock. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { InvalidInputError } from '../errors.js';
import { cancellable, checkOptions, type Members } from '../options.js';
import { formatValue } from '../value.js';

/** Options of {@link startDynamoDB}. Every member has a default. */
export interface StartOptions {
  /**
   * The program `isr` (`go build ./cmd/isr`): a path, or a name that is looked up in PATH.
   * Default: the environment variable ISR_BINARY, else `isr`.
   */
  binary?: string | undefined;
  /** How long it may take until it answers, in milliseconds, above 0. Default: 30,000. */
  timeoutMs?: number | undefined;
  /** Ends it when the signal is aborted. */
  signal?: AbortSignal | undefined;
}

/** A running engine, which has no tables at first. `stop`, `await using`, or the end of this process ends it. */
export interface LocalDynamoDB extends AsyncDisposable {
  /** `http://127.0.0.1:` and a port that was free. */
  readonly endpoint: string;
  /** A client of it, which `stop` destroys. */
  readonly client: DynamoDBClient;
  /** The variables by which programs of any language find it with an SDK of AWS. */
  readonly environment: Readonly<Record<string, string>>;
  /** Ends it, with all of its tables. It may be called more than once. */
  stop(): Promise<void>;
}

const members: Members<StartOptions> = { ...cancellable, binary: true, timeoutMs: true };

/**
 * Runs the engine until its standard input ends: when this process ends, however it does, the
 * engine ends too. The shell exits with the status of the engine.
 */
const script =
  'exec 3<&0; "$0" "$@" </dev/null 3<&- & engine=$!; { cat <&3; kill "$engine"; } >/dev/null 2>&1 & wait "$engine"';

const credentials = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
const region = 'us-east-1';

/**
 * Starts the engine on a free port of 127.0.0.1, and waits until it answers. It needs a POSIX
 * shell. Tests that use different names of tables can share one.
 *
 * @throws InvalidInputError if the program is not found; Error, with the program's output, if
 * it ends or does not answer in time; the reason of the signal
 */
export async function startDynamoDB(options: StartOptions = {}): Promise<LocalDynamoDB> {
  checkOptions('startDynamoDB', options, members);
  const { timeoutMs = 30_000, signal } = options;
  if (typeof timeoutMs !== 'number' || !(timeoutMs > 0)) {
    throw new InvalidInputError(`timeoutMs must be a number above 0 (got ${formatValue(timeoutMs)})`);
  }
  signal?.throwIfAborted();
  const binary = findBinary(options.binary ?? process.env['ISR_BINARY'] ?? 'isr');
  const flags = ['dynamodb', '--memory', '--listen=127.0.0.1:0', '--log-level=info'];
  const child = spawn('sh', ['-c', script, binary, ...flags], {
    env: environmentOf(),
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  const ended = once(child, 'exit');
  const end = async () => {
    child.ref();
    child.stdin?.end();
    await ended;
  };
  try {
    const endpoint = await withDeadline(endpointOf(child, ended, binary), binary, timeoutMs, signal);
    detach(child);
    return engineAt(endpoint, end, signal);
  } catch (error) {
    await end().catch(() => undefined);
    throw error;
  }
}

function engineAt(endpoint: string, end: () => Promise<void>, signal: AbortSignal | undefined): LocalDynamoDB {
  const environment = {
    ...credentials,
    AWS_REGION: region,
    AWS_DEFAULT_REGION: region,
    AWS_ENDPOINT_URL_DYNAMODB: endpoint,
  };
  const client = new DynamoDBClient({
    endpoint,
    region,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  const stop = async () => {
    signal?.removeEventListener('abort', onAbort);
    client.destroy();
    await end();
  };
  const onAbort = () => void stop();
  signal?.addEventListener('abort', onAbort);
  return { endpoint, client, environment, stop, [Symbol.asyncDispose]: stop };
}

/** Returns the path of a program. @throws InvalidInputError */
function findBinary(name: string): string {
  const paths = name.includes('/')
    ? [name]
    : (process.env['PATH'] ?? '').split(delimiter).map((dir) => join(dir, name));
  const found = paths.find(isExecutable);
  if (found !== undefined) return found;
  const where = name.includes('/') ? 'it does not exist, or is not executable' : 'it is not in PATH';
  throw new InvalidInputError(
    `the program ${formatValue(name)} was not found: ${where}. Build it in a checkout (go build ./cmd/isr), and pass its path as binary, or set ISR_BINARY`,
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns the environment without variables that configure isr, such as keys or faults. */
function environmentOf(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ISR_')));
}

/** How much of the program's output is kept for an error, in characters. */
const keptText = 4_000;

/** Returns the endpoint that the program logs once it answers. */
async function endpointOf(child: ChildProcess, ended: Promise<unknown[]>, binary: string): Promise<string> {
  let said = '';
  const serving = new Promise<string>((resolve) => {
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-keptText);
      const [, endpoint] = said.match(/serving DynamoDB on (http:\/\/[\d.]+:\d+)/) ?? [];
      if (endpoint !== undefined) resolve(endpoint);
    });
  });
  const failed = ended.then(([status]) => {
    throw new Error(
      `${binary} dynamodb ended with status ${status} before it answered: ${said.trim() || 'no message'}`,
    );
  });
  return Promise.race([serving, failed]);
}

async function withDeadline<T>(work: Promise<T>, binary: string, timeoutMs: number, signal: AbortSignal | undefined) {
  const deadline = AbortSignal.timeout(timeoutMs);
  const either = signal === undefined ? deadline : AbortSignal.any([deadline, signal]);
  const aborted = new Promise<never>((_, reject) => {
    either.addEventListener('abort', () => {
      const isLate = either.reason === deadline.reason;
      reject(isLate ? new Error(`${binary} dynamodb did not answer within ${timeoutMs} ms`) : either.reason);
    });
  });
  return Promise.race([work, aborted]);
}

/** Lets this process end while the program runs, which ends it. Its log is read and dropped. */
function detach(child: ChildProcess): void {
  child.stderr?.removeAllListeners('data').resume();
  for (const handle of [child, child.stdin, child.stderr] as readonly unknown[]) {
    (handle as Partial<{ unref(): void }>).unref?.();
  }
}
