/** DynamoDB's answers, as errors that callers branch on. */

import {
  ConditionFailedError,
  InvalidQueryError,
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

/** What an item was demanded to be. */
export interface Demand {
  /** For people: what was tried, on which item. */
  name: string;
  /** Says that a version was demanded, and the stored item, if there is one, has another. */
  conflicts(item: Item | undefined): boolean;
}

/**
 * The error of a write of some items. Answers of which this package has no error,
 * such as a missing permission, are the SDK's own.
 */
export function writeFailure(name: string, demands: readonly Demand[], error: unknown): unknown {
  const failure = failureOf(name, demands, error);
  const isSaid = failure instanceof TheorydbError && outcomeOf(failure) === 'unknown';
  if (outcomeOf(error) !== 'unknown' || isSaid) {
    return failure;
  }
  return new UnknownOutcomeError(
    `${name}: no answer tells whether it happened; read what is stored before you repeat it`,
    { cause: error },
  );
}

/** The error of a read. */
export function readFailure(name: string, error: unknown): unknown {
  return failureOf(name, [], error);
}

function failureOf(name: string, demands: readonly Demand[], error: unknown): unknown {
  const answer = answerOf(error);
  if (answer === undefined || error instanceof TheorydbError) {
    return error;
  }
  const cause = { cause: error };
  switch (answer.name) {
    case 'ConditionalCheckFailedException':
      return refused(demands[0], answer.Item, cause);
    case 'TransactionCanceledException':
      return cancelled(name, demands, answer, error);
    case 'ResourceNotFoundException':
      return new TableNotFoundError(
        `${name}: there is no such table or index, or it cannot be used yet: ${answer.message}`,
        cause,
      );
    case 'ValidationException':
      return new InvalidQueryError(`${name}: DynamoDB refuses the request: ${answer.message}`, cause);
  }
  if (isConflict(answer)) {
    return new TransactionConflictError(`${name}: another transaction is at work on the item; try again`, cause);
  }
  if (isThrottling(answer)) {
    return new ThrottledError(
      `${name}: DynamoDB throttles; the capacity of the table or the account is exhausted`,
      cause,
    );
  }
  return error;
}

/** The error of a write of one item whose condition failed. */
function refused(demand: Demand | undefined, item: Item | undefined, refusal: Refusal): ConditionFailedError {
  const name = demand?.name ?? 'the write';
  const stored = item === undefined ? ': there is none' : '';
  if (demand?.conflicts(item)) {
    const change = item === undefined ? 'deleted' : 'changed';
    return new VersionConflictError(`${name}: the item was ${change} since it was read; read it again`, {
      ...refusal,
      item,
    });
  }
  return new ConditionFailedError(`${name}: the stored item is not as the condition demands${stored}`, {
    ...refusal,
    item,
  });
}

/**
 * The error of a cancelled transaction: that of its first failed condition, else what
 * all of it met. An internal error of DynamoDB is the SDK's own.
 */
function cancelled(name: string, demands: readonly Demand[], answer: Answer, error: unknown): unknown {
  const reasons = reasonsOf(answer);
  const refusal = { cause: error, reasons };
  const failed = reasons.find((reason) => reason.code === conditionFailed);
  if (failed !== undefined) {
    const demand = demands[failed.index];
    const action = demand && { ...demand, name: `${name}: action ${failed.index}, ${demand.name}` };
    return refused(action, failed.item as Item | undefined, refusal);
  }
  const text = `${name}: the transaction was cancelled, and nothing of it happened: ${listed(reasons)}`;
  if (reasons.some(isConflictReason)) {
    return new TransactionConflictError(text, refusal);
  }
  if (reasons.some(isThrottlingReason)) {
    return new ThrottledError(text, refusal);
  }
  return outcomeOf(error) === 'refused' ? new InvalidQueryError(text, refusal) : error;
}

function listed(reasons: readonly Reason[]): string {
  return reasons
    .filter((reason) => reason.code !== 'None')
    .map((reason) => `action ${reason.index}: ${reason.code}${reason.message === '' ? '' : `: ${reason.message}`}`)
    .join('; ');
}
