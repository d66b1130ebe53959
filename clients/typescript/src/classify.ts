/** Maps DynamoDB's error responses to the errors that callers branch on. */

import {
  ConditionFailedError,
  InvalidQueryError,
  ItemNotFoundError,
  type Reason,
  type Refusal,
  TableNotFoundError,
  TheorydbError,
  ThrottledError,
  TransactionConflictError,
  UnknownOutcomeError,
  VersionConflictError,
} from './errors.js';
import type { Item } from './item.js';
import {
  type Answer,
  answerOf,
  conditionFailed,
  isConflict,
  isConflictReason,
  isThrottling,
  isThrottlingReason,
  outcomeOf,
  reasonsOf,
} from './outcome.js';

/** The precondition of a write, for error messages. */
export interface Precondition {
  /** What was tried, on which item. */
  name: string;
  /** Reports whether the write required a version that the stored item does not have. */
  conflicts(item: Item | undefined): boolean;
  /** The item must exist: an update of a missing item is an ItemNotFoundError. */
  readonly mustExist?: boolean;
}

/**
 * Returns the error of a write. Responses without an error class in this package, such as
 * a missing permission, stay the SDK's own errors.
 */
export function writeFailure(name: string, preconditions: readonly Precondition[], error: unknown): unknown {
  const failure = errorOf(name, preconditions, error);
  const isUnknown = failure instanceof TheorydbError && outcomeOf(failure) === 'unknown';
  if (outcomeOf(error) !== 'unknown' || isUnknown) {
    return failure;
  }
  return new UnknownOutcomeError(`${name}: the outcome is unknown; read the stored item before you retry`, {
    cause: error,
  });
}

/** Returns the error of a read. */
export function readFailure(name: string, error: unknown): unknown {
  return errorOf(name, [], error);
}

function errorOf(name: string, preconditions: readonly Precondition[], error: unknown): unknown {
  const answer = answerOf(error);
  if (answer === undefined || error instanceof TheorydbError) {
    return error;
  }
  const cause = { cause: error };
  switch (answer.name) {
    case 'ConditionalCheckFailedException':
      return preconditions[0]?.mustExist && answer.Item === undefined
        ? new ItemNotFoundError(`${preconditions[0].name}: no such item`, cause)
        : refused(preconditions[0], answer.Item, cause);
    case 'TransactionCanceledException':
      return cancelled(name, preconditions, answer, error);
    case 'ResourceNotFoundException':
      return new TableNotFoundError(
        `${name}: the table or index does not exist or is not active yet: ${answer.message}`,
        cause,
      );
    case 'ValidationException':
      return new InvalidQueryError(`${name}: DynamoDB rejected the request: ${answer.message}`, cause);
  }
  if (isConflict(answer)) {
    return new TransactionConflictError(`${name}: conflict with another transaction on the item; try again`, cause);
  }
  if (isThrottling(answer)) {
    return new ThrottledError(`${name}: throttled; the capacity of the table or the account is exhausted`, cause);
  }
  return error;
}

/** Returns the error of a write of one item whose condition failed. */
function refused(
  precondition: Precondition | undefined,
  item: Item | undefined,
  refusal: Refusal,
): ConditionFailedError {
  const name = precondition?.name ?? 'the write';
  const stored = item === undefined ? ': no such item' : '';
  if (precondition?.conflicts(item)) {
    const change = item === undefined ? 'deleted' : 'changed';
    return new VersionConflictError(`${name}: the item was ${change} since it was read; read it again`, {
      ...refusal,
      item,
    });
  }
  return new ConditionFailedError(`${name}: the stored item does not meet the condition${stored}`, {
    ...refusal,
    item,
  });
}

/**
 * Returns the error of a cancelled transaction: the error of its first failed condition if
 * there is one. An internal error of DynamoDB stays the SDK's own.
 */
function cancelled(name: string, preconditions: readonly Precondition[], answer: Answer, error: unknown): unknown {
  const reasons = reasonsOf(answer);
  const refusal = { cause: error, reasons };
  const failed = reasons.find((reason) => reason.code === conditionFailed);
  if (failed !== undefined) {
    const precondition = preconditions[failed.index];
    const action = precondition && { ...precondition, name: `${name}: action ${failed.index}, ${precondition.name}` };
    return refused(action, failed.item as Item | undefined, refusal);
  }
  const text = `${name}: the transaction was cancelled and not applied: ${formatReasons(reasons)}`;
  if (reasons.some(isConflictReason)) {
    return new TransactionConflictError(text, refusal);
  }
  if (reasons.some(isThrottlingReason)) {
    return new ThrottledError(text, refusal);
  }
  return outcomeOf(error) === 'refused' ? new InvalidQueryError(text, refusal) : error;
}

function formatReasons(reasons: readonly Reason[]): string {
  return reasons
    .filter((reason) => reason.code !== 'None')
    .map((reason) => `action ${reason.index}: ${reason.code}${reason.message === '' ? '' : `: ${reason.message}`}`)
    .join('; ');
}
