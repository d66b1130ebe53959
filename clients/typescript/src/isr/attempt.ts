import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { floorSeconds } from '../clock.js';
import { InvalidInputError, InvalidKeyError } from '../errors.js';
import type { Backend } from './backend.js';
import { type Condition, updateOf } from './expression.js';
import { checkRequestKey, isWellFormed } from './key.js';
import { LOCK_LINGER } from './lockrow.js';
import { PREFIX } from './names.js';
import { interval } from './numbers.js';
import { N, S } from './row.js';
import { type Action, onRow } from './transaction.js';

/** A request, named so that it is carried out once however often it is made. */
export interface Claim {
  /** 1 to 256 characters of printable ASCII without spaces. */
  idempotencyKey: string;
  /** The hex SHA-256 of the inputs: see `hashInputs`. */
  requestHash: string;
  /** How long the record is kept after the request was made, in seconds. */
  keepSeconds: number;
}

/** What became of a request other than by a publish: the entry that answers it, or why it failed. */
export type RequestEnd =
  | { result: { htmlPointer: string; generationId?: string }; failure?: undefined }
  | { failure: string; result?: undefined };

/** The right to say what became of a request, by its token. */
export interface Attempt {
  readonly sk: string;
  readonly token: string;
  readonly claim: Claim;
  /** Until when the record is kept at least, in epoch seconds. */
  readonly keepUntil: number;
}

/** Bounds the hash of a request, in bytes. */
const longestHash = 256;
/** Bounds the reason of a failure in the table, in bytes. */
const longestFailure = 1024;

/**
 * The attempt at a claim that is made now.
 * @throws InvalidKeyError InvalidInputError
 */
export function newAttempt(b: Backend, claim: Claim): Attempt {
  checkRequestKey(claim.idempotencyKey);
  checkHash(claim);
  if (typeof claim.keepSeconds !== 'number' || !(claim.keepSeconds >= 0)) {
    throw new InvalidInputError(`requestKeepSeconds is ${claim.keepSeconds}: expected a number of seconds, 0 or more`);
  }
  return {
    sk: PREFIX.request + claim.idempotencyKey,
    token: b.newToken(),
    claim,
    keepUntil: floorSeconds(b.clock.now()) + interval(claim.keepSeconds) + 1,
  };
}

function checkHash({ idempotencyKey, requestHash }: Claim): void {
  if (typeof requestHash !== 'string') {
    throw new InvalidInputError(
      `the hash of the request ${idempotencyKey} is of type ${typeof requestHash}: expected a string`,
    );
  }
  const bytes = isWellFormed(requestHash) ? Buffer.byteLength(requestHash) : 0;
  if (bytes === 0 || bytes > longestHash) {
    throw new InvalidKeyError(
      `the hash of the request ${idempotencyKey} is none: expected the hex SHA-256 of its inputs, such as hashInputs gives`,
    );
  }
}

/** Nobody has taken the request over, and it has not been finished. */
export function isMine(a: Attempt): Condition {
  return {
    expression: 'attempt_token = :mine AND #status = :started',
    names: { '#status': 'status' },
    values: { ':mine': S(a.token), ':started': S('STARTED') },
  };
}

/** The whole of a STARTED row, in progress until a time in epoch seconds. */
export function startedRow(a: Attempt, until: number): Record<string, AttributeValue | undefined> {
  return {
    request_hash: S(a.claim.requestHash),
    status: S('STARTED'),
    result_s3_key: undefined,
    attempt_token: S(a.token),
    error: undefined,
    generation_id: undefined,
    ...storedUntil(a, until),
  };
}

/** The record is kept as long as was asked for, and longer than somebody is at it. */
function storedUntil(a: Attempt, until: number): Record<string, AttributeValue> {
  return { in_progress_until: N(until), ttl: N(Math.max(a.keepUntil, until + LOCK_LINGER)) };
}

/** The request is in progress until a time in epoch seconds. */
export function extendAttempt(b: Backend, pk: string, a: Attempt, until: number): Action {
  return {
    purpose: 'request',
    item: { Update: { ...onRow(b, pk, a.sk), ...updateOf(storedUntil(a, until), isMine(a)) } },
  };
}

/** What changes in the row at the end of the attempt. Its ttl stays. */
export function finishedRow(end: RequestEnd): Record<string, AttributeValue | undefined> {
  const { result } = end;
  const failure = result ? '' : cutText(end.failure ?? '');
  return {
    status: S(result ? 'COMPLETED' : 'FAILED'),
    result_s3_key: result?.htmlPointer ? S(result.htmlPointer) : undefined,
    generation_id: result?.generationId ? S(result.generationId) : undefined,
    in_progress_until: undefined,
    error: failure ? S(failure) : undefined,
  };
}

/** So many bytes at most, and no part of a character. */
function cutText(s: string): string {
  const bytes = Buffer.from(s, 'utf8');
  if (bytes.length <= longestFailure) return bytes.toString('utf8');
  let end = longestFailure;
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}
