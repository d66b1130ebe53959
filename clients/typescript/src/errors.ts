/**
 * What callers branch on: by class (`error instanceof LeaseLostError`) or by
 * `code`, which is the name of the class without its ending, the same in Go,
 * TypeScript and Python.
 *
 * Nothing here is thrown for a message alone: a message names the thing, what was
 * expected, what was found, and what to do.
 */

/** The codes of all errors. */
export type ErrorCode =
  | 'InvalidInput'
  | 'InvalidKey'
  | 'InvalidModel'
  | 'InvalidQuery'
  | 'ItemNotFound'
  | 'ConditionFailed'
  | 'VersionConflict'
  | 'TransactionConflict'
  | 'Throttled'
  | 'TableNotFound'
  | 'UnknownOutcome'
  | 'LeaseHeld'
  | 'LeaseLost'
  | 'Moved'
  | 'Pinned'
  | 'Purged'
  | 'NoVersion'
  | 'RequestCompleted'
  | 'RequestInProgress'
  | 'RequestMismatch'
  | 'ResultGone'
  | 'MalformedRow';

/** What an error was caused by; the SDK's own error as a rule. */
export interface Caused {
  cause?: unknown;
}

/** Every error of this package. */
export abstract class TheorydbError extends Error {
  abstract readonly code: ErrorCode;

  constructor(message: string, caused: Caused = {}) {
    super(message, 'cause' in caused ? { cause: caused.cause } : undefined);
    this.name = new.target.name;
  }
}

/**
 * An argument has the wrong type or is out of bounds: a negative interval, one
 * beyond ten years, a clock in milliseconds where seconds belong, a value that no
 * attribute can say exactly. Nothing was sent.
 */
export class InvalidInputError extends TheorydbError {
  readonly code = 'InvalidInput';
}

/** A text cannot be a key: of a page, a tenant, a lease or a request. Nothing was sent. */
export class InvalidKeyError extends TheorydbError {
  readonly code = 'InvalidKey';
}

/** A model does not fit together, or is not registered. Nothing was sent. */
export class InvalidModelError extends TheorydbError {
  readonly code = 'InvalidModel';
}

/** The parts of a query, an update or a transaction do not go together, or DynamoDB says so. Nothing happened. */
export class InvalidQueryError extends TheorydbError {
  readonly code = 'InvalidQuery';
}

/** There is no such item. */
export class ItemNotFoundError extends TheorydbError {
  readonly code = 'ItemNotFound';
}

/** Why one action of a transaction was, or would have been, refused; see {@link ConditionFailedError.reasons}. */
export interface Reason {
  /** The action, from 0. */
  index: number;
  /** DynamoDB's code: `None` if nothing was wrong with this action. */
  code: string;
  /** DynamoDB's text, for people; empty if it gave none. */
  message: string;
  /** The stored item, as it is stored, if a condition failed and there is one. */
  item?: Readonly<Record<string, unknown>>;
}

/** What is known of a write that was refused. */
export interface Refusal extends Caused {
  /** The stored item, as it is stored (`{ S: … }`), if there is one. */
  item?: Readonly<Record<string, unknown>> | undefined;
  /** Of a transaction: one entry per action, in order. */
  reasons?: readonly Reason[];
}

/** The stored item is not as a condition demands, and nothing was changed. */
export class ConditionFailedError extends TheorydbError {
  readonly code: 'ConditionFailed' | 'VersionConflict' = 'ConditionFailed';
  /** The stored item, as it is stored, if there is one; of a transaction that of the first action whose condition failed. */
  readonly item: Readonly<Record<string, unknown>> | undefined;
  /** Of a transaction: one entry per action, in order; empty otherwise. */
  readonly reasons: readonly Reason[];

  constructor(message: string, refusal: Refusal = {}) {
    super(message, refusal);
    this.item = refusal.item;
    this.reasons = refusal.reasons ?? [];
  }
}

/** The stored item has another version: it was changed since it was read. Read it again. */
export class VersionConflictError extends ConditionFailedError {
  override readonly code = 'VersionConflict';
}

/** Another transaction was at work on an item, in every attempt; nothing was changed. */
export class TransactionConflictError extends TheorydbError {
  readonly code = 'TransactionConflict';
  /** Of a transaction: one entry per action, in order; empty otherwise. */
  readonly reasons: readonly Reason[];

  constructor(message: string, refusal: Refusal = {}) {
    super(message, refusal);
    this.reasons = refusal.reasons ?? [];
  }
}

/** What a batch has not carried out, as it was given: to be tried again. */
export interface Unprocessed {
  puts: readonly unknown[];
  deletes: readonly unknown[];
}

/** What is known of work that was not finished. */
export interface Unfinished extends Caused {
  unprocessed?: Unprocessed;
}

/** The table or the account is at the limit of its capacity, after all attempts. */
export class ThrottledError extends TheorydbError {
  readonly code = 'Throttled';
  /** Of a batch of writes: those that were not carried out. */
  readonly unprocessed: Unprocessed | undefined;

  constructor(message: string, unfinished: Unfinished = {}) {
    super(message, unfinished);
    this.unprocessed = unfinished.unprocessed;
  }
}

/** There is no such table, or it cannot be used yet. */
export class TableNotFoundError extends TheorydbError {
  readonly code = 'TableNotFound';
}

/** The store stopped answering before a write could be settled: it may or may not have happened. */
export class UnknownOutcomeError extends TheorydbError {
  readonly code = 'UnknownOutcome';
  /** Of a batch of writes: those that are not known to have been carried out; some of them may have been. */
  readonly unprocessed: Unprocessed | undefined;

  constructor(message: string, unfinished: Unfinished = {}) {
    super(message, unfinished);
    this.unprocessed = unfinished.unprocessed;
  }
}

/** What is known of a lease that somebody else has. */
export interface Held extends Caused {
  /** `lease_owner` of the row; empty if its holder did not say. */
  owner: string;
  /** When it ends, in epoch seconds. */
  expiresAt: number;
  /** Of a back-off: how many regenerations failed in a row; else 0. */
  failures: number;
}

/** Somebody else has the lease, or a failure's pause is not over. */
export class LeaseHeldError extends TheorydbError {
  readonly code = 'LeaseHeld';
  /** `lease_owner` of the row; empty if its holder did not say. */
  readonly owner: string;
  /** When it ends, in epoch seconds. */
  readonly expiresAt: number;
  /** Of a back-off: how many regenerations failed in a row; else 0. */
  readonly failures: number;

  constructor(message: string, held: Held) {
    super(message, held);
    this.owner = held.owner;
    this.expiresAt = held.expiresAt;
    this.failures = held.failures;
  }
}

/** The lease expired or was taken by another holder, and cannot come back. */
export class LeaseLostError extends TheorydbError {
  readonly code = 'LeaseLost';
}

/** The entry is no longer what was read before the write; another writer was there first. Read it again. */
export class MovedError extends TheorydbError {
  readonly code = 'Moved';
}

/** The current entry is pinned, and the write does not unpin it. */
export class PinnedError extends TheorydbError {
  readonly code = 'Pinned';
}

/** A hard purge covers the generation, which may never be served again. */
export class PurgedError extends TheorydbError {
  readonly code = 'Purged';
}

/** The generation is not kept. */
export class NoVersionError extends TheorydbError {
  readonly code = 'NoVersion';
}

/** What a request with an idempotency key came to. */
export interface RequestResult {
  /** `result_s3_key` of the row: the body that was published. */
  s3Key: string;
  /** The generation that was published; empty if another writer recorded the result. */
  generationId: string;
}

/** The request was carried out before; `result` is what it came to. */
export class RequestCompletedError extends TheorydbError {
  readonly code = 'RequestCompleted';
  readonly result: RequestResult;

  constructor(message: string, completed: Caused & { result: RequestResult }) {
    super(message, completed);
    this.result = completed.result;
  }
}

/** The request is being carried out by somebody else. */
export class RequestInProgressError extends TheorydbError {
  readonly code = 'RequestInProgress';
  /** Until when, at the latest, in epoch seconds; after it the request may be taken over. */
  readonly until: number;

  constructor(message: string, progress: Caused & { until: number }) {
    super(message, progress);
    this.until = progress.until;
  }
}

/** The idempotency key was used before for a request with other inputs. */
export class RequestMismatchError extends TheorydbError {
  readonly code = 'RequestMismatch';
}

/** The request was carried out before, and what it came to is not there any more. */
export class ResultGoneError extends TheorydbError {
  readonly code = 'ResultGone';
}

/** What is wrong with a row. */
export interface Malformed extends Caused {
  pk: string;
  sk: string;
  /** The path of the attribute: `generated_at`, `isr.v`. */
  attribute: string;
  /** For people: what it should be, such as `a number of epoch seconds up to the year 9999`. */
  expected: string;
  /** For people: what is there, shortened. */
  found: string;
}

/** A row was written by somebody who has another idea of it. It is named, and never trusted. */
export class MalformedRowError extends TheorydbError {
  readonly code = 'MalformedRow';
  readonly pk: string;
  readonly sk: string;
  readonly attribute: string;
  readonly expected: string;
  readonly found: string;

  constructor(malformed: Malformed) {
    const { pk, sk, attribute, expected, found } = malformed;
    super(`the row ${pk} ${sk} is malformed: ${attribute}: expected ${expected}, found ${found}`, malformed);
    this.pk = pk;
    this.sk = sk;
    this.attribute = attribute;
    this.expected = expected;
    this.found = found;
  }
}
