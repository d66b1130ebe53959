/** Faults in pairs: a request that was carried out and whose reply is lost, and one that never arrived. */

import { type DynamoDBClient, TransactionCanceledException } from '@aws-sdk/client-dynamodb';

/** What befalls a request. */
export type Fault = 'reply lost' | 'not applied';

/** The network's word for both: nobody can tell them apart. */
export class Silence extends Error {
  override readonly name = 'TimeoutError';
}

/** Decides what befalls the n-th request of a command, from 1, such as `PutItem`; undefined: nothing. */
export type Plan = (command: string, n: number, input: unknown) => Fault | undefined;

/** Puts faults on a client's way, above the SDK's own retries. It returns how many requests of a command were made. */
export function injectFaults(ddb: DynamoDBClient, plan: Plan): (command: string) => number {
  const counts = new Map<string, number>();
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const command = String((context as { commandName?: string }).commandName).replace(/Command$/, '');
      const n = (counts.get(command) ?? 0) + 1;
      counts.set(command, n);
      const fault = plan(command, n, args.input);
      if (fault === 'not applied') {
        throw new Silence(`${command} ${n} did not arrive`);
      }
      if (fault === 'reply lost') {
        await next(args).catch(() => undefined); // a refusal is lost as well
        throw new Silence(`the reply to ${command} ${n} was lost`);
      }
      return next(args);
    },
    { step: 'initialize', name: 'faults' },
  );
  return (command) => counts.get(command) ?? 0;
}

/**
 * Loses the replies to the first attempts of a command on the network, below the SDK's own
 * retries, which repeat the request and show the last answer alone. Meanwhile, before it
 * is repeated, something else may happen.
 */
export function loseReplies(
  ddb: DynamoDBClient,
  command: string,
  attempts: number,
  meanwhile?: () => Promise<unknown>,
): void {
  let left = attempts;
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const { commandName } = context as { commandName?: string };
      if (commandName !== `${command}Command` || left === 0) return next(args);
      left--;
      await next(args).catch(() => undefined); // a refusal is lost as well
      await meanwhile?.();
      throw new Silence('the reply was lost on the network');
    },
    { step: 'finalizeRequest', priority: 'low', name: 'losses' },
  );
}

/** Does something before the n-th request of a command of a client is sent. */
export function before(ddb: DynamoDBClient, command: string, n: number, meanwhile: () => Promise<void>): void {
  let sent = 0;
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const name = (context as { commandName?: string }).commandName;
      if (name === `${command}Command` && ++sent === n) await meanwhile();
      return next(args);
    },
    { step: 'initialize', priority: 'high', name: 'meanwhile' },
  );
}

/**
 * The n-th transaction of a client is cancelled for a reason that passes, of its second
 * action. DynamoDB Local never says so by itself. It returns how often that was.
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

/** Notes the commands of a client, in their order. */
export function observe(ddb: DynamoDBClient, commands: string[]): void {
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      commands.push(String((context as { commandName?: string }).commandName).replace(/Command$/, ''));
      return next(args);
    },
    { step: 'initialize', priority: 'high', name: 'observer' },
  );
}
