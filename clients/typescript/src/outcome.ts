/**
 * What an error says about a write. It goes by names and codes, never by message
 * texts, which differ between regions and engines.
 */

import { type ErrorCode, type Reason, TheorydbError } from './errors.js';
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
  $metadata?: { httpStatusCode?: number; attempts?: number };
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
  'ThrottledException',
  'RequestThrottled',
  'RequestThrottledException',
  'TooManyRequestsException',
];
const conflicting: readonly string[] = ['TransactionConflictException', 'ReplicatedWriteConflictException'];
const unsettled: readonly string[] = [
  ...throttled,
  'TransactionInProgressException',
  'InternalServerError',
  'InternalFailure',
  'ServiceUnavailable',
  'ServiceUnavailableException',
  'RequestTimeout',
  'RequestTimeoutException',
];

/** The status of throttling by whatever name. */
const tooManyRequests = 429;

/** What the errors of this package say, whatever they were caused by. */
const outcomes: Readonly<Record<ErrorCode, Outcome>> = {
  InvalidInput: 'refused',
  InvalidKey: 'refused',
  InvalidModel: 'refused',
  InvalidQuery: 'refused',
  ItemNotFound: 'refused',
  TableNotFound: 'refused',
  MalformedRow: 'refused',
  Pinned: 'refused',
  Purged: 'refused',
  NoVersion: 'refused',
  RequestCompleted: 'refused',
  RequestInProgress: 'refused',
  RequestMismatch: 'refused',
  ResultGone: 'refused',
  ConditionFailed: 'condition failed',
  VersionConflict: 'condition failed',
  LeaseHeld: 'condition failed',
  LeaseLost: 'condition failed',
  Moved: 'condition failed',
  TransactionConflict: 'cancelled',
  Throttled: 'unknown',
  UnknownOutcome: 'unknown',
};

/**
 * Judges the error of one write; `undefined`, none, is `applied`. It takes the SDK's
 * errors and those of this package.
 *
 * The SDK repeats a request whose reply was lost, and shows the last answer alone: after
 * more than one attempt that answer does not tell what became of the first, which may
 * be what made a condition false. Transactions are the exception, by their client token.
 */
export function outcomeOf(error: unknown): Outcome {
  if (error === undefined) {
    return 'applied';
  }
  if (error instanceof TheorydbError) {
    return outcomes[error.code];
  }
  if (!isAnswer(error)) {
    return 'unknown'; // network, deadline, cancellation
  }
  if (error.name === 'TransactionCanceledException') {
    return outcomeOfReasons(reasonsOf(error));
  }
  return attemptsOf(error) > 1 ? 'unknown' : outcomeOfAnswer(error);
}

/** How often the SDK sent the request that an error answers; 1 if it does not say. */
export function attemptsOf(error: unknown): number {
  return answerOf(error)?.$metadata?.attempts ?? 1;
}

/** Says that the condition of a write of one item was false, whether or not an earlier attempt made it so. */
export function isConditionFailed(answer: Answer): boolean {
  return answer.name === 'ConditionalCheckFailedException';
}

function outcomeOfAnswer(answer: Answer): Outcome {
  if (isConditionFailed(answer)) {
    return 'condition failed';
  }
  if (isConflict(answer)) {
    return 'cancelled';
  }
  const status = answer.$metadata?.httpStatusCode ?? 0;
  if (unsettled.includes(answer.name) || status >= 500 || status === tooManyRequests || answer.$fault === 'server') {
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
