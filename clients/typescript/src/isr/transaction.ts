import { randomUUID } from 'node:crypto';

import { type TransactWriteItem, TransactWriteItemsCommand } from '@aws-sdk/client-dynamodb';

import { answerOf, conditionFailed, reasonsOf } from '../outcome.js';
import { TokenAge } from '../token.js';
import { type Backend, keyOf } from './backend.js';
import { type Row, text } from './row.js';

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
  /** What happened at that sequence: the row of the log, and the marks of tags. */
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
  readonly #token = randomUUID();
  readonly #age: TokenAge;

  constructor(b: Backend, actions: readonly Action[]) {
    this.#backend = b;
    this.#actions = actions;
    this.#age = new TokenAge(b.clock);
  }

  /** Sends the request, or repeats it. It rejects, and sends nothing, once {@link expired}. */
  readonly send = async (abortSignal: AbortSignal): Promise<unknown> => {
    this.#age.check();
    const command = new TransactWriteItemsCommand({
      TransactItems: this.#actions.map((a) => a.item),
      ClientRequestToken: this.#token,
    });
    return this.#backend.ddb.send(command, { abortSignal });
  };

  /** DynamoDB may have forgotten the token: a repetition could be carried out a second time. */
  get expired(): boolean {
    return this.#age.expired;
  }

  /** The actions whose conditions were false, with the stored rows; none if the error is no refusal. */
  failed(error: unknown): ReadonlyMap<Action, Row | undefined> {
    const answer = answerOf(error);
    const failed = new Map<Action, Row | undefined>();
    for (const { index, code, item } of answer ? reasonsOf(answer) : []) {
      const action = this.#actions[index];
      if (action && code === conditionFailed) failed.set(action, item as Row | undefined);
    }
    return failed;
  }

  /** {@link failed}, by purpose, of a transaction that has each purpose once. */
  refusal(error: unknown): Refusal {
    return new Map(Array.from(this.failed(error), ([action, row]) => [action.purpose, row]));
  }
}

/** What the actions on a row have in common: the refusal brings the row along. */
export function onRow(b: Backend, pk: string, sk: string) {
  return { TableName: b.tableName, Key: keyOf(pk, sk), ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const };
}

/** Names a row, uniquely in the table. */
export function rowId(pk: string, sk: string): string {
  return JSON.stringify([pk, sk]);
}

/** {@link rowId} of the row that an action writes. */
export function writtenBy({ item: { Put, Update, Delete } }: Action): string {
  const key = Put?.Item ?? Update?.Key ?? Delete?.Key;
  return rowId(text(key, 'pk'), text(key, 'sk'));
}
