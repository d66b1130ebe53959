import { randomBytes } from 'node:crypto';

import {
  type AttributeValue,
  BatchGetItemCommand,
  DeleteItemCommand,
  type DynamoDBClient,
  GetItemCommand,
  QueryCommand,
  type QueryCommandInput,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';

import type { Clock } from '../clock.js';
import { ThrottledError } from '../errors.js';
import { answerOf, isConditionFailed, type Outcome, outcomeOf } from '../outcome.js';
import { type Calls, withTimeout } from '../retry.js';
import { type Condition, conditionOf, updateOf } from './expression.js';
import { type Row, S, text } from './row.js';

/** Hears of what nobody has to do anything about: lost replies and what became of them. */
export type Warn = (message: string, details: Readonly<Record<string, unknown>>) => void;

/** The table of a store, and what the store was given to work with. It holds no state. */
export interface Backend {
  readonly ddb: DynamoDBClient;
  readonly tableName: string;
  readonly clock: Clock;
  readonly calls: Calls;
  /** Bounds the work that finds out what became of a write, in milliseconds. */
  readonly settleTimeoutMs: number;
  /** Texts that nobody can guess. */
  readonly newToken: () => string;
  readonly warn: Warn;
}

/** How long a call goes on: a few attempts, or until the signal is aborted. */
export type Patience = 'try' | 'insist';

/** 128 random bits as text. */
export function randomText(): string {
  return randomBytes(16).toString('hex');
}

/** The key of a row. */
export function keyOf(pk: string, sk: string): Row {
  return { pk: S(pk), sk: S(sk) };
}

/** Reads one row, strongly. */
export async function readRow(
  b: Backend,
  signal: AbortSignal | undefined,
  pk: string,
  sk: string,
): Promise<Row | undefined> {
  const read = get(b, pk, sk);
  return (await b.calls.retry(signal, read)).Item;
}

/** {@link readRow}, until there is an answer or the signal is aborted. */
export async function insistOnRow(b: Backend, signal: AbortSignal, pk: string, sk: string): Promise<Row | undefined> {
  return (await b.calls.retryUntilAborted(signal, get(b, pk, sk))).Item;
}

function get(b: Backend, pk: string, sk: string) {
  const command = { TableName: b.tableName, Key: keyOf(pk, sk), ConsistentRead: true };
  return (abortSignal: AbortSignal) => b.ddb.send(new GetItemCommand(command), { abortSignal });
}

/** How many keys one BatchGetItem has at most. */
const mostKeys = 100;

/** The rows of some sort keys of a partition, by these, read strongly; what is not there is absent. */
export async function readRows(
  b: Backend,
  signal: AbortSignal | undefined,
  pk: string,
  sks: Iterable<string>,
): Promise<Map<string, Row>> {
  const rows = new Map<string, Row>();
  const pending = Array.from(new Set(sks), (sk) => keyOf(pk, sk));
  for (let futile = 0; pending.length > 0; ) {
    const part = pending.splice(0, mostKeys);
    const command = new BatchGetItemCommand({ RequestItems: { [b.tableName]: { Keys: part, ConsistentRead: true } } });
    const answer = await b.calls.retry(signal, (abortSignal) => b.ddb.send(command, { abortSignal }));
    for (const row of answer.Responses?.[b.tableName] ?? []) rows.set(text(row, 'sk'), row);
    const unprocessed = answer.UnprocessedKeys?.[b.tableName]?.Keys ?? [];
    pending.push(...(unprocessed as Row[]));
    futile = unprocessed.length === part.length ? futile + 1 : 0;
    if (unprocessed.length > 0 && (futile >= mostFutile || !(await b.calls.backoff(signal, futile + 1)))) {
      throw new ThrottledError(`read ${part.length} rows of ${pk}: DynamoDB throttles, and reads none of them`);
    }
  }
  return rows;
}

/** How often rows are asked for in a row of which DynamoDB reads none. */
const mostFutile = 4;

/** What is asked of a partition, beside the table and its name. */
export type Question = Pick<
  QueryCommandInput,
  'KeyConditionExpression' | 'ExpressionAttributeValues' | 'ScanIndexForward' | 'Limit'
>;

/** The rows of all pages of a strongly consistent query. */
export async function queryAll(b: Backend, signal: AbortSignal | undefined, question: Question): Promise<Row[]> {
  const rows: Row[] = [];
  let from: Row | undefined;
  do {
    const page = await b.calls.retry(signal, query(b, question, from));
    rows.push(...(page.Items ?? []));
    from = page.LastEvaluatedKey;
  } while (from && Object.keys(from).length > 0);
  return rows;
}

/** The rows of one page of a strongly consistent query. */
export async function queryPage(b: Backend, signal: AbortSignal | undefined, question: Question): Promise<Row[]> {
  return (await b.calls.retry(signal, query(b, question, undefined))).Items ?? [];
}

function query(b: Backend, question: Question, from: Row | undefined) {
  const input = { TableName: b.tableName, ConsistentRead: true, ...question };
  return (abortSignal: AbortSignal) =>
    b.ddb.send(new QueryCommand(from ? { ...input, ExclusiveStartKey: from } : input), { abortSignal });
}

/** A deletion, if a condition holds. The refusal brings the row along. */
export function deletion(b: Backend, pk: string, sk: string, condition: Condition) {
  const command = new DeleteItemCommand({
    TableName: b.tableName,
    Key: keyOf(pk, sk),
    ...conditionOf(condition),
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  });
  return (abortSignal: AbortSignal) => b.ddb.send(command, { abortSignal });
}

/** An update, if a condition holds: see {@link updateOf}. The refusal brings the row along. */
export function alteration(
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
 * Does work that finds out what became of a write. It outlives the caller: one who
 * went away while a reply was on its way must not leave a lease behind, nor be told
 * less than is the case. It is bounded on its own instead.
 */
export function settling<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return withTimeout(ms, undefined, work);
}

/**
 * What an answer says about a write. A call that ended because the caller went away
 * says nothing, whatever reason the caller gave for that: it may be the word that a
 * lease is lost, and have been caused by a refusal of another write. A false condition
 * is definite also if the SDK had repeated the request: the conditions of this package
 * demand a token, by which it recognises what an earlier attempt of its own has left.
 */
export function outcomeUnder(signal: AbortSignal | undefined, error: unknown): Outcome {
  if (signal?.aborted && error === signal.reason) return 'unknown';
  const answer = answerOf(error);
  return answer && isConditionFailed(answer) ? 'condition failed' : outcomeOf(error);
}

/** The error of work; undefined if it succeeded. */
export async function failureOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return error ?? new Error('a promise was rejected without a reason');
  }
}
