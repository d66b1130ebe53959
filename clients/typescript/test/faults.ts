/** Faults in pairs: a request that was carried out and whose reply is lost, and one that never arrived. */

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

/** What befalls a request. */
export type Fault = 'reply lost' | 'not applied';

/** The network's word for both: nobody can tell them apart. */
export class Silence extends Error {
  override readonly name = 'TimeoutError';
}

/** Decides what befalls the n-th request of a command, from 1, such as `PutItem`; undefined: nothing. */
export type Plan = (command: string, n: number) => Fault | undefined;

/** Puts faults on a client's way, above the SDK's own retries. It returns how many requests of a command were made. */
export function injectFaults(ddb: DynamoDBClient, plan: Plan): (command: string) => number {
  const counts = new Map<string, number>();
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const command = String((context as { commandName?: string }).commandName).replace(/Command$/, '');
      const n = (counts.get(command) ?? 0) + 1;
      counts.set(command, n);
      const fault = plan(command, n);
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
