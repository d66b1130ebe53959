/**
 * What an error says about a write. It goes by names and codes, never by message
 * texts, which differ between regions and engines.
 */

import {
  InvalidInputError,
  InvalidKeyError,
  InvalidModelError,
  InvalidQueryError,
  type Reason,
  TheorydbError,
} from './errors.js';
import type { Item } from './item.js';

/**
 * What the answer to a write says about it:
 *
 * - `applied`: it happened.
 * - `condition failed`: it did not happen, because its condition was false.
 * - `refused`: it did not happen, and would not if it were repeated.
 * - `cancelled`: it did not happen, because of something that passes (another
 *   transaction on the item, capacity); a new attempt is a new request.
 * - `unknown`: nobody can tell whether it happened or still will. The same request
 *   may be repeated if it is idempotent. Throttling counts as unknown, although
 *   DynamoDB says it of requests that it did not carry out: the SDK retries by
 *   itself and shows the last answer alone, and the reply to an attempt before it
 *   may have been lost.
 */
export type Outcome = 'applied' | 'condition failed' | 'refused' | 'cancelled' | 'unknown';

/** An answer of DynamoDB that is an error, as the SDK has it. */
export interface Answer {
  name: string;
  message: string;
  $fault: 'client' | 'server';
  $metadata?: { httpStatusCode?: number };
  /** Of a failed condition: the stored item. */
  Item?: Item;
  /** Of a cancelled transaction. */
  CancellationReasons?: readonly { Code?: string; Message?: string; Item?: Item }[];
}

/** Codes of reasons for which transactions are cancelled. */
export const conditionFailed = 'ConditionalCheckFailed';
const transactionConflict = 'TransactionConflict';
const serverError = 'InternalServerError';
const throttlings: readonly string[] = ['ThrottlingError', 'ProvisionedThroughputExceeded'];

const throttled: readonly string[] = [
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'ThrottlingException',
  'Throttling',
];
const conflicting: readonly string[] = ['TransactionConflictException', 'ReplicatedWriteConflictException'];
const unsettled: readonly string[] = [
  ...throttled,
  'TransactionInProgressException',
  'InternalServerError',
  'InternalFailure',
  'ServiceUnavailable',
  'RequestTimeout',
  'RequestTimeoutException',
];

/** Judges the error of one write; `undefined`, none, is `applied`. It takes the SDK's errors and those of this package. */
export function outcomeOf(error: unknown): Outcome {
  if (error === undefined) {
    return 'applied';
  }
  if (neverSent(error)) {
    return 'refused';
  }
  const answer = answerOf(error);
  if (answer === undefined) {
    return 'unknown'; // network, deadline, cancellation
  }
  return answer.name === 'TransactionCanceledException' ? outcomeOfReasons(reasonsOf(answer)) : outcomeOfAnswer(answer);
}

/** Says that the error is ours, made before anything was sent. */
function neverSent(error: unknown): boolean {
  return (
    (error instanceof InvalidInputError ||
      error instanceof InvalidKeyError ||
      error instanceof InvalidModelError ||
      error instanceof InvalidQueryError) &&
    error.cause === undefined
  );
}

function outcomeOfAnswer(answer: Answer): Outcome {
  if (answer.name === 'ConditionalCheckFailedException') {
    return 'condition failed';
  }
  if (isConflict(answer)) {
    return 'cancelled';
  }
  const status = answer.$metadata?.httpStatusCode ?? 0;
  if (unsettled.includes(answer.name) || status >= 500 || answer.$fault === 'server') {
    return 'unknown';
  }
  return 'refused';
}

/**
 * Judges a cancelled transaction by all of its actions. It certainly did not
 * happen; the question is whether it is worth repeating.
 *
 * A failed condition decides even if another action met a conflict: what
 * conditions demand (the token of a lease, an unchanged version) does not come back.
 */
function outcomeOfReasons(reasons: readonly Reason[]): Outcome {
  if (reasons.some((reason) => reason.code === conditionFailed)) {
    return 'condition failed';
  }
  return reasons.some(passes) ? 'cancelled' : 'refused';
}

/** Says that what a reason is about may be over at the next attempt. */
function passes(reason: Reason): boolean {
  return isConflictReason(reason) || isThrottlingReason(reason) || reason.code === serverError;
}

/** Says that an action met another transaction. */
export function isConflictReason(reason: Reason): boolean {
  return reason.code === transactionConflict;
}

/** Says that an action met the limit of a capacity. */
export function isThrottlingReason(reason: Reason): boolean {
  return throttlings.includes(reason.code);
}

/** Says that another transaction, or another region, was at work on the item. */
export function isConflict(answer: Answer): boolean {
  return conflicting.includes(answer.name);
}

/** Says that the table or the account is at the limit of its capacity. */
export function isThrottling(answer: Answer): boolean {
  return throttled.includes(answer.name);
}

/** The reasons of a cancelled transaction, one per action, in order; none of any other answer. */
export function reasonsOf(answer: Answer): Reason[] {
  return (answer.CancellationReasons ?? []).map((given, index) => ({
    index,
    code: given.Code ?? 'None',
    message: given.Message ?? '',
    ...(given.Item === undefined ? {} : { item: given.Item }),
  }));
}

/** DynamoDB's answer behind an error, be it the SDK's or one of this package that was caused by it; undefined if there was none. */
export function answerOf(error: unknown): Answer | undefined {
  let at = error;
  while (at instanceof TheorydbError) {
    at = at.cause;
  }
  return isAnswer(at) ? at : undefined;
}

// By shape, not by class: a program may have two copies of the SDK.
function isAnswer(error: unknown): error is Answer {
  return error instanceof Error && '$fault' in error;
}
