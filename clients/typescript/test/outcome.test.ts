import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { writeFailure } from '../src/classify.js';
import * as errors from '../src/errors.js';
import { InvalidInputError, type Outcome, outcomeOf, TheorydbError } from '../src/index.js';
import { specFile } from './spec.js';

const answer = (name: string, more: object = {}) => Object.assign(new Error('…'), { name, $fault: 'client', ...more });
const cancelled = (...codes: string[]) =>
  answer('TransactionCanceledException', { CancellationReasons: codes.map((Code) => ({ Code })) });

/** For each error, the outcome of the write and the error code that callers see; '' for the SDK's own error. */
const table: [name: string, error: unknown, outcome: Outcome, code: string][] = [
  ['a failed condition', answer('ConditionalCheckFailedException'), 'condition failed', 'ConditionFailed'],
  ['a conflict', answer('TransactionConflictException'), 'cancelled', 'TransactionConflict'],
  ['another region', answer('ReplicatedWriteConflictException'), 'cancelled', 'TransactionConflict'],
  ['throttling', answer('ThrottlingException'), 'unknown', 'Throttled'],
  ['capacity', answer('ProvisionedThroughputExceededException'), 'unknown', 'Throttled'],
  ['the account’s limit', answer('RequestLimitExceeded'), 'unknown', 'Throttled'],
  ['a transaction in progress', answer('TransactionInProgressException'), 'unknown', 'UnknownOutcome'],
  ['an internal error', answer('InternalServerError', { $fault: 'server' }), 'unknown', 'UnknownOutcome'],
  ['status 503', answer('Other', { $metadata: { httpStatusCode: 503 } }), 'unknown', 'UnknownOutcome'],
  ['validation', answer('ValidationException'), 'refused', 'InvalidQuery'],
  ['no table', answer('ResourceNotFoundException'), 'refused', 'TableNotFound'],
  ['no permission', answer('AccessDeniedException'), 'refused', ''],
  ['a reused client token', answer('IdempotentParameterMismatchException'), 'refused', ''],
  ['no response', new Error('socket hang up'), 'unknown', 'UnknownOutcome'],
  ['an abort', new DOMException('aborted', 'AbortError'), 'unknown', 'UnknownOutcome'],
  ['our own refusal', new InvalidInputError('no'), 'refused', 'InvalidInput'],
  [
    'a cancelled transaction: condition',
    cancelled('None', 'ConditionalCheckFailed'),
    'condition failed',
    'ConditionFailed',
  ],
  [
    'condition beats conflict',
    cancelled('TransactionConflict', 'ConditionalCheckFailed'),
    'condition failed',
    'ConditionFailed',
  ],
  ['a cancelled transaction: conflict', cancelled('None', 'TransactionConflict'), 'cancelled', 'TransactionConflict'],
  ['a cancelled transaction: throttling', cancelled('ThrottlingError', 'None'), 'cancelled', 'Throttled'],
  ['a cancelled transaction: capacity', cancelled('ProvisionedThroughputExceeded'), 'cancelled', 'Throttled'],
  ['a cancelled transaction: validation', cancelled('ValidationError', 'None'), 'refused', 'InvalidQuery'],
  ['a cancelled transaction: size', cancelled('ItemCollectionSizeLimitExceeded'), 'refused', 'InvalidQuery'],
  ['a cancelled transaction: internal', cancelled('InternalServerError'), 'cancelled', ''],
];

for (const [name, error, outcome, code] of table) {
  test(`${name} is ${outcome}`, () => {
    assert.equal(outcomeOf(error), outcome);
    const failure = writeFailure('put', [], error);
    assert.equal(failure instanceof TheorydbError ? failure.code : '', code);
    // A ThrottledError without cancellation reasons has an unknown outcome.
    assert.equal(outcomeOf(failure), code === 'Throttled' ? 'unknown' : outcome, 'unchanged after wrapping');
  });
}

const vectors = JSON.parse(readFileSync(specFile('vectors/outcomes.json'), 'utf8'));

test('responses are classified as the test vectors demand', () => {
  for (const { name, code, status, attempts, outcome } of vectors.answers) {
    const $metadata = { httpStatusCode: status, attempts };
    const lost = status === undefined;
    const error = lost ? new Error('no answer') : answer(code ?? 'Error', { $metadata });
    assert.equal(status === 200 ? outcomeOf(undefined) : outcomeOf(error), outcome, name);
  }
  for (const { name, reasons, attempts, outcome } of vectors.cancellations) {
    assert.equal(outcomeOf(Object.assign(cancelled(...reasons), { $metadata: { attempts } })), outcome, name);
  }
});

test('this package’s errors are classified as the test vectors demand', () => {
  const missing = [];
  for (const { name, error, cause, outcome } of vectors.errors) {
    const created = errorOf(error, cause === undefined ? {} : { cause: errorOf(cause, {}) });
    if (created === undefined) missing.push(error);
    else assert.equal(outcomeOf(created), outcome, name);
  }
  assert.deepEqual(missing, ['Denied'], 'errors that this package does not have');
});

/** Creates an error of this package from its code. */
function errorOf(code: string, caused: { cause?: unknown }): TheorydbError | undefined {
  const Class = (errors as Record<string, unknown>)[`${code}Error`] as
    | (new (
        message: string,
        more: object,
      ) => TheorydbError)
    | undefined;
  if (code === 'MalformedRow') {
    return new errors.MalformedRowError({ pk: 'p', sk: 's', attribute: 'a', expected: 'b', found: 'c' });
  }
  return Class && new Class('…', { owner: '', expiresAt: 0, failures: 0, until: 0, ...caused });
}

test('undefined is applied', () => {
  assert.equal(outcomeOf(undefined), 'applied');
});

test('errors have the name of their class and their cause', () => {
  const cause = new Error('below');
  const error = new InvalidInputError('bad', { cause });
  assert.deepEqual([error.name, error.code, error.cause], ['InvalidInputError', 'InvalidInput', cause]);
  assert.ok(!('cause' in new InvalidInputError('bad')));
});
