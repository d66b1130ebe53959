import { floorSeconds } from '../clock.js';
import { ceilDecimal } from '../decimal.js';
import {
  type MalformedRowError,
  RequestCompletedError,
  RequestInProgressError,
  RequestMismatchError,
} from '../errors.js';
import type { RequestRecord } from './entry.js';
import type { Condition } from './expression.js';
import { notExists } from './expression.js';
import { sameAs } from './fence.js';
import { holdsUntil } from './lockrow.js';
import { BOUNDS } from './names.js';
import { clamp, floorOf } from './numbers.js';
import { type Kind, type Row, read, requirePresent, text, textKind } from './row.js';

type Status = RequestRecord['status'];

const statusKind: Kind<Status | ''> = {
  expected: 'STARTED, COMPLETED or FAILED',
  none: '',
  read: (av) => (av.S === 'STARTED' || av.S === 'COMPLETED' || av.S === 'FAILED' ? av.S : undefined),
};

/**
 * Parses a request record; undefined if its ttl has passed, since DynamoDB deletes expired
 * rows late. The hash and the status are required; attributes that other services do not
 * write are parsed leniently, like a lease's.
 * @throws MalformedRowError A malformed record never counts as absent: the request may have been executed.
 */
export function readRequest(row: Row, key: string, nowMs: number): RequestRecord | undefined {
  const ttl = (row['ttl'] && floorOf(row['ttl'])) ?? 0n;
  if (ttl > 0n && ttl <= BigInt(floorSeconds(nowMs))) return undefined;
  requirePresent(row, 'request_hash', textKind);
  requirePresent(row, 'status', statusKind);
  const end = row['in_progress_until']?.N;
  const until = clamp((end && ceilDecimal(end)) || 0n, 0, BOUNDS.moment);
  return {
    key,
    requestHash: read(row, 'request_hash', textKind),
    status: read(row, 'status', statusKind) as Status,
    ...(until > 0 ? { inProgressUntilMs: until * 1000 } : {}),
    htmlPointer: read(row, 'result_s3_key', textKind),
    generationId: text(row, 'generation_id'),
    failure: text(row, 'error'),
  };
}

/** The condition that a REQ# row is unchanged since the read: not extended, taken over or ended. */
export function unchangedRequest(found: Row | undefined): Condition {
  if (!found) return notExists;
  return sameAs(
    {
      request_hash: [':old_hash', found['request_hash']],
      '#status': [':old_status', found['status']],
      attempt_token: [':old_attempt', found['attempt_token']],
      in_progress_until: [':old_until', found['in_progress_until']],
      '#ttl': [':old_ttl', found['ttl']],
    },
    { '#status': 'status', '#ttl': 'ttl' },
  );
}

/** Returns the error of a claim that meets an existing record; undefined if the request may be executed. */
export function refusalOf(r: RequestRecord, requestHash: string, nowMs: number): Error | undefined {
  if (r.requestHash !== requestHash) {
    return new RequestMismatchError(
      `the idempotency key ${r.key} was used with different inputs (hash ${r.requestHash}): use a new key for a new request`,
    );
  }
  if (r.status === 'COMPLETED') {
    return new RequestCompletedError(`the request ${r.key} is already completed: its result is ${r.htmlPointer}`, {
      result: { s3Key: r.htmlPointer, generationId: r.generationId },
    });
  }
  return r.status === 'STARTED' && holdsUntil((r.inProgressUntilMs ?? 0) / 1000, nowMs) ? inProgress(r) : undefined;
}

/** Returns the error of a request in progress. */
export function inProgress(r: RequestRecord): RequestInProgressError {
  const untilMs = r.inProgressUntilMs ?? 0;
  return new RequestInProgressError(
    `the request ${r.key} is in progress until ${new Date(untilMs).toISOString()}: retry after that`,
    { until: untilMs / 1000 },
  );
}

/** Reports whether an error is the answer of a request record to a claim. */
export function isRefusal(error: unknown): error is Exclude<Error, MalformedRowError> {
  return (
    error instanceof RequestMismatchError ||
    error instanceof RequestCompletedError ||
    error instanceof RequestInProgressError
  );
}
