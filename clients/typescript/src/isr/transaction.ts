import { randomUUID } from 'node:crypto';

import { type TransactWriteItem, TransactWriteItemsCommand } from '@aws-sdk/client-dynamodb';

import { answerOf, conditionFailed, reasonsOf } from '../outcome.js';
import { TokenAge } from '../token.js';
import { type Backend, keyOf } from './backend.js';
import { type Row, text } from './row.js';

/** The purpose of an action, which determines what a failed condition means. */
export type Purpose =
  /** META gets the next entry. */
  | 'meta'
  /** The lease is released, if held; or acquired, if free. */
  | 'lock'
  /** The version row of the generation is created. */
  | 'version'
  /** The version row of the superseded generation gets a ttl or is deleted. */
  | 'superseded'
  /** The version row of the restored generation loses its ttl. */
  | 'restored'
  /** The purge sequence is incremented. */
  | 'sequence'
  /** The log row of that sequence. */
  | 'log'
  /** The current build of the site. */
  | 'build'
  /** A purge mark, or the purge row of a page. It has no condition. */
  | 'purge'
  /** The record of a request with an idempotency key changes. */
  | 'request';

/** One action of a transaction. */
export interface Action {
  purpose: Purpose;
  item: TransactWriteItem;
}

/** The failed conditions of a refused transaction: the stored row by purpose, undefined where there is none. */
export type Refusal = ReadonlyMap<Purpose, Row | undefined>;

/** A transaction request. It is immutable, so that it can be retried under its client token. */
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

  /** Sends or retries the request. It rejects without sending once {@link expired}. */
  readonly send = async (abortSignal: AbortSignal): Promise<unknown> => {
    this.#age.check();
    const command = new TransactWriteItemsCommand({
      TransactItems: this.#actions.map((a) => a.item),
      ClientRequestToken: this.#token,
    });
    return this.#backend.ddb.send(command, { abortSignal });
  };

  /** Reports whether the token may have expired, so that a retry could be applied twice. */
  get expired(): boolean {
    return this.#age.expired;
  }

  /** Returns the actions whose conditions failed, with the stored rows; empty for other errors. */
  failed(error: unknown): ReadonlyMap<Action, Row | undefined> {
    const answer = answerOf(error);
    const failed = new Map<Action, Row | undefined>();
    for (const { index, code, item } of answer ? reasonsOf(answer) : []) {
      const action = this.#actions[index];
      if (action && code === conditionFailed) failed.set(action, item as Row | undefined);
    }
    return failed;
  }

  /** Like {@link failed}, by purpose, for a transaction with at most one action per purpose. */
  refusal(error: unknown): Refusal {
    return new Map(Array.from(this.failed(error), ([action, row]) => [action.purpose, row]));
  }
}

/** The members shared by actions on a row; a refusal returns the stored row. */
export function onRow(b: Backend, pk: string, sk: string) {
  return { TableName: b.tableName, Key: keyOf(pk, sk), ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const };
}

/** Returns a unique id of a row in the table. */
export function rowId(pk: string, sk: string): string {
  return JSON.stringify([pk, sk]);
}

/** Returns the {@link rowId} of the row that an action writes. */
export function writtenBy({ item: { Put, Update, Delete } }: Action): string {
  const key = Put?.Item ?? Update?.Key ?? Delete?.Key;
  return rowId(text(key, 'pk'), text(key, 'sk'));
}
