/**
 * Classifies errors of writes by their outcome. It uses names and codes, never message
 * texts, which differ between regions and engines.
 */

import { type ErrorCode, type Reason, TheorydbError } from './errors.js';
import type { Item } from './item.js';

/**
 * The outcome of a write:
 *
 * - `applied`: it was applied.
 * - `condition failed`: it was not applied, because its condition was false.
 * - `refused`: it was not applied, and a retry would not be either.
 * - `cancelled`: it was not applied, for a transient reason (another transaction on the
 *   item, capacity). A new attempt is a new request.
 * - `unknown`: it may or may not have been applied, and may still be. The same request may
 *   be retried if it is idempotent. Throttling counts as unknown although DynamoDB does
 *   not apply throttled requests: the SDK retries internally and reports only the last
 *   response, and the reply to an earlier attempt may have been lost.
 */
export type Outcome = 'applied' | 'condition failed' | 'refused' | 'cancelled' | 'unknown';

/** An error response of DynamoDB, as the SDK represents it. */
export interface Answer {
  name: string;
  message: string;
  $fault: 'client' | 'server';
  $metadata?: { httpStatusCode?: number; attempts?: number };
  /** The stored item, for a failed condition. */
  Item?: Item;
  /** For a cancelled transaction. */
  CancellationReasons?: readonly { Code?: string; Message?: string; Item?: Item }[];
}

/** Cancellation reason codes of transactions. */
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

/** The HTTP status of throttling, whatever the error's name. */
const tooManyRequests = 429;

/** The outcomes of this package's own errors, whatever their cause. */
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
  KeyProvider: 'cancelled',
  // A write decrypts only what an update returns, after it was applied.
  NotEncrypted: 'unknown',
  Tampered: 'unknown',
  UnknownKey: 'unknown',
  Throttled: 'unknown',
  UnknownOutcome: 'unknown',
};

/**
 * Classifies the error of one write, the SDK's or this package's; `undefined` is `applied`.
 *
 * The SDK retries a request whose reply was lost and reports only the last response. After
 * more than one attempt that response does not show whether the first was applied, which
 * may be what made the condition false. Transactions are the exception: their client token
 * makes them idempotent.
 */
export function outcomeOf(error: unknown): Outcome {
  if (error === undefined) {
    return 'applied';
  }
  if (error instanceof TheorydbError) {
    return outcomes[error.code];
  }
  if (!isAnswer(error)) {
    return 'unknown'; // network error, timeout, cancellation
  }
  if (error.name === 'TransactionCanceledException') {
    return outcomeOfReasons(reasonsOf(error));
  }
  return attemptsOf(error) > 1 ? 'unknown' : outcomeOfAnswer(error);
}

/** Returns how many attempts the SDK made for the request; 1 if unknown. */
export function attemptsOf(error: unknown): number {
  return answerOf(error)?.$metadata?.attempts ?? 1;
}

/** Reports whether the condition of a write of one item failed, possibly because of an earlier attempt. */
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
 * Classifies a cancelled transaction by the reasons of all its actions. It was certainly
 * not applied; the question is whether a retry can succeed.
 *
 * A failed condition takes precedence over a conflict of another action: what conditions
 * require (a lease token, an unchanged version) never becomes true again.
 */
function outcomeOfReasons(reasons: readonly Reason[]): Outcome {
  if (reasons.some((reason) => reason.code === conditionFailed)) {
    return 'condition failed';
  }
  return reasons.some(passes) ? 'cancelled' : 'refused';
}

/** Reports whether a reason is transient. */
function passes(reason: Reason): boolean {
  return isConflictReason(reason) || isThrottlingReason(reason) || reason.code === serverError;
}

/** Reports whether an action conflicted with another transaction. */
export function isConflictReason(reason: Reason): boolean {
  return reason.code === transactionConflict;
}

/** Reports whether an action was throttled. */
export function isThrottlingReason(reason: Reason): boolean {
  return throttlings.includes(reason.code);
}

/** Reports whether the item was being written by another transaction or another region. */
export function isConflict(answer: Answer): boolean {
  return conflicting.includes(answer.name);
}

/** Reports whether the table or the account is throttled. */
export function isThrottling(answer: Answer): boolean {
  return throttled.includes(answer.name);
}

/** Returns the reasons of a cancelled transaction, one per action in order; an empty array for any other response. */
export function reasonsOf(answer: Answer): Reason[] {
  return (answer.CancellationReasons ?? []).map((given, index) => ({
    index,
    code: given.Code ?? 'None',
    message: given.Message ?? '',
    ...(given.Item === undefined ? {} : { item: given.Item }),
  }));
}

/** Returns DynamoDB's error response, following the causes of this package's errors; undefined if DynamoDB did not respond. */
export function answerOf(error: unknown): Answer | undefined {
  let at = error;
  while (at instanceof TheorydbError) {
    at = at.cause;
  }
  return isAnswer(at) ? at : undefined;
}

// By shape, not by class: a program may load two copies of the SDK.
function isAnswer(error: unknown): error is Answer {
  return error instanceof Error && '$fault' in error;
}
