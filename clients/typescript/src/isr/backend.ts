import { randomBytes } from 'node:crypto';

import {
  type AttributeValue,
  BatchGetItemCommand,
  DeleteItemCommand,
  type DynamoDBClient,
  GetItemCommand,
  QueryCommand,
  type QueryCommandInput,
  TransactGetItemsCommand,
  type TransactGetItemsCommandOutput,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';

import type { Clock } from '../clock.js';
import { ThrottledError } from '../errors.js';
import { answerOf, isConditionFailed, type Outcome, outcomeOf } from '../outcome.js';
import { type Calls, withTimeout } from '../retry.js';
import { type Condition, conditionOf, updateOf } from './expression.js';
import { type Row, S, text } from './row.js';

/** Called for events that need no action, such as lost replies and their settled outcome. */
export type Warn = (message: string, details: Readonly<Record<string, unknown>>) => void;

/** The table and the dependencies of a store. It holds no state. */
export interface Backend {
  readonly ddb: DynamoDBClient;
  readonly tableName: string;
  readonly clock: Clock;
  readonly calls: Calls;
  /** The timeout for settling the outcome of an unanswered write, in milliseconds. */
  readonly settleTimeoutMs: number;
  /** Returns an unguessable, unique text. */
  readonly newToken: () => string;
  readonly warn: Warn;
}

/** Returns 128 random bits in hex. */
export function randomText(): string {
  return randomBytes(16).toString('hex');
}

/** Returns the key of a row. */
export function keyOf(pk: string, sk: string): Row {
  return { pk: S(pk), sk: S(sk) };
}

/** Reads one row, strongly consistent. */
export async function readRow(
  b: Backend,
  signal: AbortSignal | undefined,
  pk: string,
  sk: string,
): Promise<Row | undefined> {
  const read = get(b, pk, sk);
  return (await b.calls.retry(signal, read)).Item;
}

/**
 * Reads rows of a partition by their sort keys, in one transaction; missing rows are absent from the
 * result. It is retried for `callTimeoutMs` while another transaction is about to write one of them.
 * Other reads of several rows may show a transaction that is being committed in part, see
 * spec/schema.md.
 */
export async function readSerializable(
  b: Backend,
  signal: AbortSignal | undefined,
  pk: string,
  sks: readonly string[],
): Promise<Map<string, Row>> {
  return rowsOf(sks, await b.calls.retryInTime(signal, transactGet(b, pk, sks)));
}

/** Like {@link readSerializable}, but retries until the signal is aborted. */
export async function readSerializableUntilAborted(
  b: Backend,
  signal: AbortSignal,
  pk: string,
  sks: readonly string[],
): Promise<Map<string, Row>> {
  return rowsOf(sks, await b.calls.retryUntilAborted(signal, transactGet(b, pk, sks)));
}

function transactGet(b: Backend, pk: string, sks: readonly string[]) {
  const gets = sks.map((sk) => ({ Get: { TableName: b.tableName, Key: keyOf(pk, sk) } }));
  const command = new TransactGetItemsCommand({ TransactItems: gets });
  return (abortSignal: AbortSignal) => b.ddb.send(command, { abortSignal });
}

/** Returns the rows that a transaction has found, by their sort keys. */
function rowsOf(sks: readonly string[], { Responses = [] }: TransactGetItemsCommandOutput): Map<string, Row> {
  const rows = new Map<string, Row>();
  for (const [i, sk] of sks.entries()) {
    const row = Responses[i]?.Item;
    if (row && Object.keys(row).length > 0) rows.set(sk, row);
  }
  return rows;
}

function get(b: Backend, pk: string, sk: string) {
  const command = { TableName: b.tableName, Key: keyOf(pk, sk), ConsistentRead: true };
  return (abortSignal: AbortSignal) => b.ddb.send(new GetItemCommand(command), { abortSignal });
}

/** The maximum number of keys per BatchGetItem. */
const maxBatchKeys = 100;

/** Reads rows of a partition by their sort keys, strongly consistent. Missing rows are absent from the result. */
export async function readRows(
  b: Backend,
  signal: AbortSignal | undefined,
  pk: string,
  sks: Iterable<string>,
): Promise<Map<string, Row>> {
  const rows = new Map<string, Row>();
  const pending = Array.from(new Set(sks), (sk) => keyOf(pk, sk));
  for (let emptyReads = 0; pending.length > 0; ) {
    const part = pending.splice(0, maxBatchKeys);
    const command = new BatchGetItemCommand({ RequestItems: { [b.tableName]: { Keys: part, ConsistentRead: true } } });
    const answer = await b.calls.retry(signal, (abortSignal) => b.ddb.send(command, { abortSignal }));
    for (const row of answer.Responses?.[b.tableName] ?? []) rows.set(text(row, 'sk'), row);
    const unprocessed = answer.UnprocessedKeys?.[b.tableName]?.Keys ?? [];
    pending.push(...(unprocessed as Row[]));
    emptyReads = unprocessed.length === part.length ? emptyReads + 1 : 0;
    if (unprocessed.length > 0 && (emptyReads >= maxEmptyReads || !(await b.calls.backoff(signal, emptyReads + 1)))) {
      throw new ThrottledError(`read ${part.length} rows of ${pk}: throttled, no row was read`);
    }
  }
  return rows;
}

/** How many requests in a row may return no rows before the read fails. */
const maxEmptyReads = 4;

/** The variable members of a query. */
export type QueryTerms = Pick<
  QueryCommandInput,
  'KeyConditionExpression' | 'ExpressionAttributeValues' | 'ScanIndexForward' | 'Limit'
>;

/** Reads all pages of a strongly consistent query. */
export async function queryAll(b: Backend, signal: AbortSignal | undefined, terms: QueryTerms): Promise<Row[]> {
  const rows: Row[] = [];
  let from: Row | undefined;
  do {
    const page = await b.calls.retry(signal, query(b, terms, from));
    rows.push(...(page.Items ?? []));
    from = page.LastEvaluatedKey;
  } while (from && Object.keys(from).length > 0);
  return rows;
}

/** Reads one page of a strongly consistent query, and whether it is the last one. */
export async function queryPage(
  b: Backend,
  signal: AbortSignal | undefined,
  terms: QueryTerms,
): Promise<{ rows: Row[]; isLast: boolean }> {
  const { Items = [], LastEvaluatedKey: next } = await b.calls.retry(signal, query(b, terms, undefined));
  return { rows: Items, isLast: !next || Object.keys(next).length === 0 };
}

function query(b: Backend, terms: QueryTerms, from: Row | undefined) {
  const input = { TableName: b.tableName, ConsistentRead: true, ...terms };
  return (abortSignal: AbortSignal) =>
    b.ddb.send(new QueryCommand(from ? { ...input, ExclusiveStartKey: from } : input), { abortSignal });
}

/** Builds a conditional delete. A refusal returns the stored row. */
export function deleteCall(b: Backend, pk: string, sk: string, condition: Condition) {
  const command = new DeleteItemCommand({
    TableName: b.tableName,
    Key: keyOf(pk, sk),
    ...conditionOf(condition),
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  });
  return (abortSignal: AbortSignal) => b.ddb.send(command, { abortSignal });
}

/** Builds a conditional update, see {@link updateOf}. A refusal returns the stored row. */
export function updateCall(
  b: Backend,
  pk: string,
  sk: string,
  attributes: Record<string, AttributeValue | undefined>,
  condition: Condition,
) {
  const command = new UpdateItemCommand({
    TableName: b.tableName,
    Key: keyOf(pk, sk),
    ...updateOf(attributes, condition),
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  });
  return (abortSignal: AbortSignal) => b.ddb.send(command, { abortSignal });
}

/**
 * Runs work that settles the outcome of a write, detached from the caller's signal and with
 * its own timeout: a caller that cancels while a reply is in flight must not leave a lease
 * behind, nor get a less definite answer than possible.
 */
export function detached<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return withTimeout(ms, undefined, work);
}

/**
 * Classifies the outcome of a write. A call that the caller's signal cancelled is unknown,
 * whatever the signal's reason: the reason may be a LeaseLostError caused by the refusal of
 * another write. A failed condition is definite even if the SDK retried the request: our
 * conditions require a token, by which we recognize an earlier attempt of our own.
 */
export function outcomeOfCall(signal: AbortSignal | undefined, error: unknown): Outcome {
  if (signal?.aborted && error === signal.reason) return 'unknown';
  const answer = answerOf(error);
  return answer && isConditionFailed(answer) ? 'condition failed' : outcomeOf(error);
}

/** Returns the error of work, undefined if it succeeded. */
export async function errorOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return error ?? new Error('promise rejected without a reason');
  }
}
