/** Fault injection, in pairs: a request that was applied but whose reply is lost, and one that never arrived. */

import { type DynamoDBClient, TransactionCanceledException } from '@aws-sdk/client-dynamodb';

/** The fault of a request. */
export type Fault = 'reply lost' | 'not applied';

/** The error of both faults: the caller cannot distinguish them. */
export class NoReply extends Error {
  override readonly name = 'TimeoutError';
}

/** Chooses the fault of the n-th request (from 1) of a command such as `PutItem`; undefined for none. */
export type Plan = (command: string, n: number, input: unknown) => Fault | undefined;

/** Injects faults above the SDK's own retries. It returns a function that counts the requests of a command. */
export function injectFaults(ddb: DynamoDBClient, plan: Plan): (command: string) => number {
  const counts = new Map<string, number>();
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const command = String((context as { commandName?: string }).commandName).replace(/Command$/, '');
      const n = (counts.get(command) ?? 0) + 1;
      counts.set(command, n);
      const fault = plan(command, n, args.input);
      if (fault === 'not applied') {
        throw new NoReply(`${command} ${n} did not arrive`);
      }
      if (fault === 'reply lost') {
        await next(args).catch(() => undefined); // a refusal is lost as well
        throw new NoReply(`the reply to ${command} ${n} was lost`);
      }
      return next(args);
    },
    { step: 'initialize', name: 'faults' },
  );
  return (command) => counts.get(command) ?? 0;
}

/**
 * Loses the replies to the first attempts of a command below the SDK's own retries: the SDK
 * retries the request and reports only the last response. `interleaved` runs before each
 * retry.
 */
export function loseReplies(
  ddb: DynamoDBClient,
  command: string,
  attempts: number,
  interleaved?: () => Promise<unknown>,
): void {
  let left = attempts;
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const { commandName } = context as { commandName?: string };
      if (commandName !== `${command}Command` || left === 0) return next(args);
      left--;
      await next(args).catch(() => undefined); // a refusal is lost as well
      await interleaved?.();
      throw new NoReply('the reply was lost on the network');
    },
    { step: 'finalizeRequest', priority: 'low', name: 'losses' },
  );
}

/** Runs `interleaved` before a client's n-th request of a command is sent. */
export function before(ddb: DynamoDBClient, command: string, n: number, interleaved: () => Promise<unknown>): void {
  let sent = 0;
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const name = (context as { commandName?: string }).commandName;
      if (name === `${command}Command` && ++sent === n) await interleaved();
      return next(args);
    },
    { step: 'initialize', priority: 'high', name: 'interleaved' },
  );
}

/**
 * Cancels a client's n-th transaction with a transient reason on its second action, which
 * DynamoDB Local never does by itself. It returns a function that counts the cancellations.
 */
export function cancel(ddb: DynamoDBClient, code: string, n = 1): () => number {
  let sent = 0;
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const name = (context as { commandName?: string }).commandName;
      if (name !== 'TransactWriteItemsCommand' || ++sent !== n) return next(args);
      throw new TransactionCanceledException({
        message: 'Transaction cancelled',
        CancellationReasons: [{ Code: 'None' }, { Code: code }],
        $metadata: { httpStatusCode: 400 },
      });
    },
    { step: 'initialize', name: 'cancellation' },
  );
  return () => Number(sent >= n);
}

/** Records the commands of a client in order. */
export function observe(ddb: DynamoDBClient, commands: string[]): void {
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      commands.push(String((context as { commandName?: string }).commandName).replace(/Command$/, ''));
      return next(args);
    },
    { step: 'initialize', priority: 'high', name: 'observer' },
  );
}

/** A way to a table that a test can close. */
export interface Way {
  /** Requests fail at once, without having been sent. */
  fail(): void;
  /** Requests wait until the way is open, or fails. */
  hang(): void;
  open(): void;
  /** How many requests were made so far. */
  made(): number;
}

/** Puts a way between a client and its table; it is open at first. */
export function wayTo(ddb: DynamoDBClient): Way {
  let state: 'open' | 'failing' | 'hanging' = 'open';
  let made = 0;
  const waiting = new Set<() => void>();
  ddb.middlewareStack.add(
    (next) => async (args) => {
      made++;
      while (state === 'hanging') await new Promise<void>((resolve) => waiting.add(resolve));
      if (state === 'failing') throw new NoReply('there is no way to the table');
      return next(args);
    },
    { step: 'initialize', name: 'way' },
  );
  const turn = (to: typeof state) => {
    state = to;
    for (const go of waiting) go();
    waiting.clear();
  };
  return { fail: () => turn('failing'), hang: () => turn('hanging'), open: () => turn('open'), made: () => made };
}
