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

/** A claim of a request by its idempotency key. */
export interface Claim {
  /** 1 to 256 characters of printable ASCII without spaces. */
  idempotencyKey: string;
  /** The hex SHA-256 of the inputs: see `hashInputs`. */
  requestHash: string;
  /** How long the request record is kept, in seconds. */
  keepSeconds: number;
}

/** The end of a request other than by a publish: the entry that is its result, or the reason of its failure. */
export type RequestEnd =
  | { result: { htmlPointer: string; generationId?: string }; failure?: undefined }
  | { failure: string; result?: undefined };

/** An attempt to execute a request. Its token gives the right to end it. */
export interface Attempt {
  readonly sk: string;
  readonly token: string;
  readonly claim: Claim;
  /** The minimum ttl of the record, in epoch seconds. */
  readonly keepUntil: number;
}

/** The longest request hash, in bytes. */
const maxHashBytes = 256;
/** The longest stored failure reason, in bytes. */
const maxFailureBytes = 1024;

/**
 * Starts an attempt at a claim.
 * @throws InvalidKeyError InvalidInputError
 */
export function newAttempt(b: Backend, claim: Claim): Attempt {
  checkRequestKey(claim.idempotencyKey);
  checkHash(claim);
  if (typeof claim.keepSeconds !== 'number' || !(claim.keepSeconds >= 0)) {
    throw new InvalidInputError(`requestKeepSeconds must be a number of at least 0 (got ${claim.keepSeconds})`);
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
      `request ${idempotencyKey}: requestHash is of type ${typeof requestHash}: expected a string`,
    );
  }
  const bytes = isWellFormed(requestHash) ? Buffer.byteLength(requestHash) : 0;
  if (bytes === 0 || bytes > maxHashBytes) {
    throw new InvalidKeyError(
      `request ${idempotencyKey}: invalid requestHash; expected the hex SHA-256 of the inputs, see hashInputs`,
    );
  }
}

/** The condition that the attempt is current: not taken over and not ended. */
export function isCurrent(a: Attempt): Condition {
  return {
    expression: 'attempt_token = :mine AND #status = :started',
    names: { '#status': 'status' },
    values: { ':mine': S(a.token), ':started': S('STARTED') },
  };
}

/** The attributes of a STARTED row, in progress until a time in epoch seconds. */
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

/** The end of the attempt, and a ttl that is after it and honours `keepSeconds`. */
function storedUntil(a: Attempt, until: number): Record<string, AttributeValue> {
  return { in_progress_until: N(until), ttl: N(Math.max(a.keepUntil, until + LOCK_LINGER)) };
}

/** Extends an attempt to a time in epoch seconds. */
export function extendAttempt(b: Backend, pk: string, a: Attempt, until: number): Action {
  return {
    purpose: 'request',
    item: { Update: { ...onRow(b, pk, a.sk), ...updateOf(storedUntil(a, until), isCurrent(a)) } },
  };
}

/** The attributes that change when the attempt ends. The ttl stays. */
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

/** Truncates a text to the maximum bytes at a character boundary. */
function cutText(s: string): string {
  const bytes = Buffer.from(s, 'utf8');
  if (bytes.length <= maxFailureBytes) return bytes.toString('utf8');
  let end = maxFailureBytes;
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}
