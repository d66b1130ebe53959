import { floorSeconds } from '../clock.js';
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
import { ceilNumber, clamp, floorOf } from './numbers.js';
import { demand, type Kind, type Row, read, text, textKind } from './row.js';

type Status = RequestRecord['status'];

const statusKind: Kind<Status | ''> = {
  expected: 'STARTED, COMPLETED or FAILED',
  none: '',
  read: (av) => (av.S === 'STARTED' || av.S === 'COMPLETED' || av.S === 'FAILED' ? av.S : undefined),
};

/**
 * The record of a request; undefined if its time is over: DynamoDB collects such rows
 * when it likes. What says how far it has come is required; what other services do
 * not write is read as leniently as a lease.
 * @throws MalformedRowError what cannot be read may have been carried out.
 */
export function readRequest(row: Row, key: string, nowMs: number): RequestRecord | undefined {
  const ttl = (row['ttl'] && floorOf(row['ttl'])) ?? 0n;
  if (ttl > 0n && ttl <= BigInt(floorSeconds(nowMs))) return undefined;
  demand(row, 'request_hash', textKind);
  demand(row, 'status', statusKind);
  const end = row['in_progress_until']?.N;
  const until = clamp((end && ceilNumber(end)) || 0n, 0, BOUNDS.moment);
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

/** A REQ# row is as it was read: nobody has moved its end, taken it over or finished it. */
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

/** What somebody is told who makes a claim while a request is on record; undefined if it may be carried out. */
export function standing(r: RequestRecord, requestHash: string, nowMs: number): Error | undefined {
  if (r.requestHash !== requestHash) {
    return new RequestMismatchError(
      `the idempotency key ${r.key} was used for other inputs (hash ${r.requestHash}): use a new key for a new request`,
    );
  }
  if (r.status === 'COMPLETED') {
    return new RequestCompletedError(`the request ${r.key} was completed before: its result is ${r.htmlPointer}`, {
      result: { s3Key: r.htmlPointer, generationId: r.generationId },
    });
  }
  return r.status === 'STARTED' && holdsUntil((r.inProgressUntilMs ?? 0) / 1000, nowMs) ? inProgress(r) : undefined;
}

/** The request is in progress. */
export function inProgress(r: RequestRecord): RequestInProgressError {
  const untilMs = r.inProgressUntilMs ?? 0;
  return new RequestInProgressError(
    `the request ${r.key} is in progress until ${new Date(untilMs).toISOString()}: ask again then`,
    { until: untilMs / 1000 },
  );
}

/** Whether an error is the answer to a claim, by the record of the request. */
export function isStanding(error: unknown): error is Exclude<Error, MalformedRowError> {
  return (
    error instanceof RequestMismatchError ||
    error instanceof RequestCompletedError ||
    error instanceof RequestInProgressError
  );
}
