import { randomUUID } from 'node:crypto';

import { type TransactWriteItem, TransactWriteItemsCommand } from '@aws-sdk/client-dynamodb';

import { answerOf, conditionFailed, reasonsOf } from '../outcome.js';
import { type Backend, keyOf } from './backend.js';
import type { Row } from './row.js';

/** What an action is there for: it tells what it means if its condition is false. */
export type Purpose =
  /** META becomes the next entry. */
  | 'meta'
  /** The lease ends, and was held; or is taken, and was free. */
  | 'lock'
  /** The generation gets a version row. */
  | 'version'
  /** That of the generation before may be collected some day. */
  | 'superseded'
  /** That of the generation that returns may not. */
  | 'restored'
  /** The purge sequence is one more. */
  | 'sequence'
  /** What happened at that sequence. */
  | 'log'
  /** A request with an idempotency key moves on. */
  | 'request';

/** One write of a transaction. */
export interface Action {
  purpose: Purpose;
  item: TransactWriteItem;
}

/** Why a transaction was refused: the stored rows of the actions whose conditions were false, undefined where there is none. */
export type Refusal = ReadonlyMap<Purpose, Row | undefined>;

/** A transaction as it is sent to DynamoDB. It is never altered, so that it can be repeated under its token. */
export class WriteRequest {
  readonly #backend: Backend;
  readonly #actions: readonly Action[];
  /** The client's token; DynamoDB remembers it for ten minutes. */
  readonly #token = randomUUID();

  constructor(b: Backend, actions: readonly Action[]) {
    this.#backend = b;
    this.#actions = actions;
  }

  readonly send = (abortSignal: AbortSignal): Promise<unknown> => {
    const command = new TransactWriteItemsCommand({
      TransactItems: this.#actions.map((a) => a.item),
      ClientRequestToken: this.#token,
    });
    return this.#backend.ddb.send(command, { abortSignal });
  };

  /** Reads the answer to the request; empty if it is no refusal. */
  refusal(error: unknown): Refusal {
    const answer = answerOf(error);
    const why = new Map<Purpose, Row | undefined>();
    for (const { index, code, item } of answer ? reasonsOf(answer) : []) {
      const action = this.#actions[index];
      if (action && code === conditionFailed) why.set(action.purpose, item as Row | undefined);
    }
    return why;
  }
}

/** What the actions on a row have in common: the refusal brings the row along. */
export function onRow(b: Backend, pk: string, sk: string) {
  return { TableName: b.tableName, Key: keyOf(pk, sk), ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const };
}
