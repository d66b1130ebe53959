/**
 * The errors that callers branch on, by class (`error instanceof LeaseLostError`) or by
 * `code`, the class name without `Error`. The codes are the same in Go, TypeScript and
 * Python. Messages name the object, what was expected, what was found, and what to do.
 */

/** The codes of this package's errors. */
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
  | 'MalformedRow'
  | 'NotEncrypted'
  | 'Tampered'
  | 'UnknownKey'
  | 'KeyProvider';

/** The codes of TableTheory's errors that have the meaning of one here. */
export type TableTheoryErrorCode =
  | 'ErrItemNotFound'
  | 'ErrConditionFailed'
  | 'ErrVersionConflict'
  | 'ErrLeaseHeld'
  | 'ErrLeaseNotOwned'
  | 'ErrInvalidModel'
  | 'ErrInvalidOperator'
  | 'ErrTableNotFound'
  | 'ErrInvalidEncryptedEnvelope';

/** TableTheory's codes of the errors here. */
const aliases: Readonly<Partial<Record<ErrorCode, readonly TableTheoryErrorCode[]>>> = {
  ItemNotFound: ['ErrItemNotFound'],
  ConditionFailed: ['ErrConditionFailed'],
  VersionConflict: ['ErrVersionConflict', 'ErrConditionFailed'],
  LeaseHeld: ['ErrLeaseHeld'],
  LeaseLost: ['ErrLeaseNotOwned'],
  InvalidModel: ['ErrInvalidModel'],
  InvalidQuery: ['ErrInvalidOperator'],
  TableNotFound: ['ErrTableNotFound'],
  NotEncrypted: ['ErrInvalidEncryptedEnvelope'],
  Tampered: ['ErrInvalidEncryptedEnvelope'],
};

/** The cause of an error, usually the SDK's error. */
export interface Caused {
  cause?: unknown;
}

/** The base class of this package's errors. */
export abstract class TheorydbError extends Error {
  abstract readonly code: ErrorCode;

  constructor(message: string, caused: Caused = {}) {
    super(message, 'cause' in caused ? { cause: caused.cause } : undefined);
    this.name = new.target.name;
  }

  /** The code, and TableTheory's codes of the same meaning. */
  get codes(): readonly (ErrorCode | TableTheoryErrorCode)[] {
    return [this.code, ...(aliases[this.code] ?? [])];
  }
}

/** Reports whether a value is an error of this package. */
export function isTheorydbError(value: unknown): value is TheorydbError {
  return value instanceof TheorydbError;
}

/** Returns the code of an error of this package and TableTheory's codes of the same meaning; none for any other value. */
export function theorydbErrorCodes(value: unknown): readonly (ErrorCode | TableTheoryErrorCode)[] {
  return isTheorydbError(value) ? value.codes : [];
}

/** Reports whether an error of this package has a code, or TableTheory's code of the same meaning: `ErrLeaseHeld`. */
export function hasTheorydbErrorCode(value: unknown, code: ErrorCode | TableTheoryErrorCode): boolean {
  return theorydbErrorCodes(value).includes(code);
}

/**
 * An argument has the wrong type or is out of range: a negative interval, one beyond ten
 * years, milliseconds instead of seconds, a value that cannot be stored exactly. Nothing
 * was sent.
 */
export class InvalidInputError extends TheorydbError {
  readonly code = 'InvalidInput';
}

/** A cache key, tenant, lease key or idempotency key is invalid. Nothing was sent. */
export class InvalidKeyError extends TheorydbError {
  readonly code = 'InvalidKey';
}

/** A model is inconsistent or not registered. Nothing was sent. */
export class InvalidModelError extends TheorydbError {
  readonly code = 'InvalidModel';
}

/** A query, update or transaction is invalid, by this package's checks or by DynamoDB's. Nothing was changed. */
export class InvalidQueryError extends TheorydbError {
  readonly code = 'InvalidQuery';
}

/** The item does not exist: a `get` or an `update` of a missing item. Nothing was changed. */
export class ItemNotFoundError extends TheorydbError {
  readonly code = 'ItemNotFound';
}

/** The cancellation reason of one action of a transaction; see {@link ConditionFailedError.reasons}. */
export interface Reason {
  /** The index of the action, from 0. */
  index: number;
  /** DynamoDB's code; `None` if this action did not fail. */
  code: string;
  /** DynamoDB's message, or empty. */
  message: string;
  /** The stored item in attribute values, if a condition failed and the item exists. */
  item?: Readonly<Record<string, unknown>>;
}

/** Details of a refused write. */
export interface Refusal extends Caused {
  /** The stored item in attribute values (`{ S: … }`), if it exists. */
  item?: Readonly<Record<string, unknown>> | undefined;
  /** For a transaction: one entry per action, in order. */
  reasons?: readonly Reason[];
}

/** A condition failed on the stored item. Nothing was changed. */
export class ConditionFailedError extends TheorydbError {
  readonly code: 'ConditionFailed' | 'VersionConflict' = 'ConditionFailed';
  /** The stored item in attribute values, if it exists; in a transaction, the item of the first action whose condition failed. */
  readonly item: Readonly<Record<string, unknown>> | undefined;
  /** For a transaction: one entry per action, in order; empty otherwise. */
  readonly reasons: readonly Reason[];

  constructor(message: string, refusal: Refusal = {}) {
    super(message, refusal);
    this.item = refusal.item;
    this.reasons = refusal.reasons ?? [];
  }
}

/** The stored item has a different version: it was changed since it was read. Read it again. */
export class VersionConflictError extends ConditionFailedError {
  override readonly code = 'VersionConflict';
}

/** Every attempt conflicted with another transaction. Nothing was changed. */
export class TransactionConflictError extends TheorydbError {
  readonly code = 'TransactionConflict';
  /** For a transaction: one entry per action, in order; empty otherwise. */
  readonly reasons: readonly Reason[];

  constructor(message: string, refusal: Refusal = {}) {
    super(message, refusal);
    this.reasons = refusal.reasons ?? [];
  }
}

/** What is left of a batch, as the caller passed it, for a retry. */
export interface Unprocessed {
  /** The items that are not known to be written. */
  puts: readonly unknown[];
  /** The keys of the items that are not known to be deleted. */
  deletes: readonly unknown[];
  /** The keys that were not read. */
  gets: readonly unknown[];
}

/** Details of an incomplete batch. */
export interface Unfinished extends Caused {
  unprocessed?: Unprocessed;
}

/** The table or the account was throttled in every attempt. */
export class ThrottledError extends TheorydbError {
  readonly code = 'Throttled';
  /** For a batch: what was not read or written. */
  readonly unprocessed: Unprocessed | undefined;

  constructor(message: string, unfinished: Unfinished = {}) {
    super(message, unfinished);
    this.unprocessed = unfinished.unprocessed;
  }
}

/** The table does not exist or is not active yet. */
export class TableNotFoundError extends TheorydbError {
  readonly code = 'TableNotFound';
}

/** The store stopped responding before the outcome of a write was settled: it may or may not have been applied. */
export class UnknownOutcomeError extends TheorydbError {
  readonly code = 'UnknownOutcome';
  /** For a batch write: the writes that are not known to be applied; some may have been. */
  readonly unprocessed: Unprocessed | undefined;

  constructor(message: string, unfinished: Unfinished = {}) {
    super(message, unfinished);
    this.unprocessed = unfinished.unprocessed;
  }
}

/** Details of a lease that another process holds. */
export interface Held extends Caused {
  /** `lease_owner` of the row; empty if the holder set none. */
  owner: string;
  /** When the lease ends, in epoch seconds. */
  expiresAt: number;
  /** The number of consecutive failures if the page is in backoff, else 0. */
  failures: number;
}

/** Another process holds the lease, or the page is in backoff after a failure. */
export class LeaseHeldError extends TheorydbError {
  readonly code = 'LeaseHeld';
  /** `lease_owner` of the row; empty if the holder set none. */
  readonly owner: string;
  /** When the lease ends, in epoch seconds. */
  readonly expiresAt: number;
  /** The number of consecutive failures if the page is in backoff, else 0. */
  readonly failures: number;

  constructor(message: string, held: Held) {
    super(message, held);
    this.owner = held.owner;
    this.expiresAt = held.expiresAt;
    this.failures = held.failures;
  }
}

/** The lease expired or another holder acquired it. A lost lease never becomes valid again. */
export class LeaseLostError extends TheorydbError {
  readonly code = 'LeaseLost';
}

/** Another writer changed the entry since it was read. Read it again. */
export class MovedError extends TheorydbError {
  readonly code = 'Moved';
}

/** The current entry is pinned and the write does not unpin it. */
export class PinnedError extends TheorydbError {
  readonly code = 'Pinned';
}

/** A hard purge covers the generation: it must never be served again. */
export class PurgedError extends TheorydbError {
  readonly code = 'Purged';
}

/** The generation is not kept. */
export class NoVersionError extends TheorydbError {
  readonly code = 'NoVersion';
}

/** The result of a request with an idempotency key. */
export interface RequestResult {
  /** `result_s3_key` of the row: the published body. */
  s3Key: string;
  /** The published generation; empty if another writer recorded the result. */
  generationId: string;
}

/** The request was already completed, with `result`. */
export class RequestCompletedError extends TheorydbError {
  readonly code = 'RequestCompleted';
  readonly result: RequestResult;

  constructor(message: string, completed: Caused & { result: RequestResult }) {
    super(message, completed);
    this.result = completed.result;
  }
}

/** Another process is working on the request. */
export class RequestInProgressError extends TheorydbError {
  readonly code = 'RequestInProgress';
  /** When the request may be taken over at the latest, in epoch seconds. */
  readonly until: number;

  constructor(message: string, progress: Caused & { until: number }) {
    super(message, progress);
    this.until = progress.until;
  }
}

/** The idempotency key was already used for a request with different inputs. */
export class RequestMismatchError extends TheorydbError {
  readonly code = 'RequestMismatch';
}

/** The request was already completed, but its result no longer exists. */
export class ResultGoneError extends TheorydbError {
  readonly code = 'ResultGone';
}

/** Details of a malformed row. */
export interface Malformed extends Caused {
  pk: string;
  sk: string;
  /** The path of the attribute: `generated_at`, `isr.v`. */
  attribute: string;
  /** A description of the expected value, such as `a number of epoch seconds up to the year 9999`. */
  expected: string;
  /** A description of the stored value, shortened. */
  found: string;
}

/** A stored row does not have the expected form. It is never trusted. */
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

/** An encrypted attribute is stored in plain text: its writer need not have had a key. */
export class NotEncryptedError extends TheorydbError {
  readonly code = 'NotEncrypted';
}

/** An encrypted attribute or its data key was modified, or copied from another attribute, item or table. */
export class TamperedError extends TheorydbError {
  readonly code = 'Tampered';
}

/** The key provider does not have the master key that sealed the data key of an encrypted attribute. */
export class UnknownKeyError extends TheorydbError {
  readonly code = 'UnknownKey';
}

/** The key provider failed to make or open a data key; `cause` is its error. A write that throws it was not sent. */
export class KeyProviderError extends TheorydbError {
  readonly code = 'KeyProvider';
}
