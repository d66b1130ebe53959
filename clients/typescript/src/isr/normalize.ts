import { InvalidInputError } from '../errors.js';
import type { Entry, HeaderFields, NextEntry } from './entry.js';
import { isWellFormed } from './key.js';
import { BOUNDS } from './names.js';
import { interval, wholeSeconds } from './numbers.js';

/**
 * The entry as a reader will find it, its times and intervals in whole seconds.
 * Intervals of more than ten years are those: they say "as long as possible".
 * @throws InvalidInputError if no row can say it, or if it cannot be meant.
 */
export function normalize(next: NextEntry, generationId: string): Entry {
  checkNumbers(next);
  checkTexts(next, generationId);
  return {
    htmlPointer: next.htmlPointer,
    generatedAtMs: wholeSeconds(next.generatedAtMs) * 1000,
    revalidateSeconds: interval(next.revalidateSeconds),
    ...(next.etag ? { etag: next.etag } : {}),
    ...(next.ttlUnixSeconds === undefined ? {} : { ttlUnixSeconds: Math.floor(next.ttlUnixSeconds) }),
    foreign: false,
    version: 0,
    generationId,
    key: next.key ?? '',
    route: next.route ?? '',
    status: next.status ?? 200,
    headers: lowerCase(next.headers ?? {}),
    contentSha256: next.contentSha256,
    contentLength: next.contentLength,
    tags: next.tags ?? [],
    staleSeconds: interval(next.staleSeconds ?? 0),
    purgeSeq: next.purgeSeq ?? 0,
    ...(next.pinnedUntilMs ? { pinnedUntilMs: wholeSeconds(next.pinnedUntilMs) * 1000 } : {}),
    ...(next.assertedAtMs ? { assertedAtMs: wholeSeconds(next.assertedAtMs) * 1000 } : {}),
    renderMs: Math.min(Math.floor(next.renderMs ?? 0), BOUNDS.interval * 1000),
  };
}

/** Names that differ in case alone are one field: their values are joined, in the order of the names. */
function lowerCase(headers: HeaderFields): HeaderFields {
  const fields = new Map<string, HeaderFields[string]>();
  for (const name of Object.keys(headers).sort()) {
    const lower = name.toLowerCase();
    fields.set(lower, [...(fields.get(lower) ?? []), ...(headers[name] ?? [])]);
  }
  return Object.fromEntries(fields);
}

function checkNumbers(e: NextEntry): void {
  checkMoment('generatedAtMs', e.generatedAtMs);
  if (e.generatedAtMs === 0) throw new InvalidInputError('generatedAtMs is 0: expected when rendering began');
  checkOptional(e, 'pinnedUntilMs', checkMoment);
  checkOptional(e, 'assertedAtMs', checkMoment);
  checkOptional(e, 'ttlUnixSeconds', checkSeconds);
  checkInterval('revalidateSeconds', e.revalidateSeconds);
  checkOptional(e, 'staleSeconds', checkInterval);
  checkOptional(e, 'renderMs', checkInterval);
  checkOptional(e, 'purgeSeq', checkCount);
  checkCount('contentLength', e.contentLength);
  const { status = 200 } = e;
  if (!Number.isInteger(status) || status < BOUNDS.minStatus || status > BOUNDS.maxStatus) {
    throw new InvalidInputError(
      `status is ${status}: expected the status of an HTTP response, ${BOUNDS.minStatus} to ${BOUNDS.maxStatus}`,
    );
  }
}

function checkOptional(e: NextEntry, name: keyof NextEntry, check: (name: string, value: number) => void): void {
  const value = e[name];
  if (value !== undefined) check(name, value as number);
}

/** @throws InvalidInputError unless it is a time in epoch milliseconds, up to the year 9999. */
export function checkMoment(name: string, ms: number): void {
  if (!isNumber(ms) || ms < 0 || ms >= (BOUNDS.moment + 1) * 1000) {
    throw new InvalidInputError(
      `${name} is ${ms}: expected epoch milliseconds, 0 to ${BOUNDS.moment}999, the end of the year 9999`,
    );
  }
}

/** @throws InvalidInputError unless it is a time in epoch seconds, up to the year 9999. */
export function checkSeconds(name: string, seconds: number): void {
  if (!isNumber(seconds) || seconds < 0 || seconds > BOUNDS.moment) {
    throw new InvalidInputError(
      `${name} is ${seconds}: expected epoch seconds, 0 to ${BOUNDS.moment}, the end of the year 9999; divide milliseconds by 1,000`,
    );
  }
}

/** @throws InvalidInputError unless it is a duration, 0 or more. */
export function checkInterval(name: string, duration: number): void {
  if (!isNumber(duration) || duration < 0) {
    throw new InvalidInputError(`${name} is ${duration}: expected a number, 0 or more`);
  }
}

function checkCount(name: string, n: number): void {
  if (!Number.isSafeInteger(n) || n < 0) {
    throw new InvalidInputError(`${name} is ${n}: expected an integer from 0 to ${BOUNDS.count}`);
  }
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && !Number.isNaN(value);
}

/** Refuses what DynamoDB's strings cannot hold, which the SDK would alter without a word. */
function checkTexts(e: NextEntry, generationId: string): void {
  const demanded = { htmlPointer: e.htmlPointer, generationId };
  for (const [name, value] of Object.entries(demanded)) {
    if (value === '') throw new InvalidInputError(`${name} is empty: expected text`);
  }
  const { etag = '', key = '', route = '', contentSha256 } = e;
  const texts = Object.entries({ ...demanded, etag, key, route, contentSha256 });
  for (const tag of list('tags', e.tags ?? [])) texts.push(['a tag', tag]);
  for (const [name, values] of Object.entries(e.headers ?? {})) {
    texts.push(['the name of a header field', name]);
    for (const value of list(`the header field ${name}`, values)) {
      if (!(value instanceof Uint8Array)) texts.push([`the header field ${name}`, value]);
    }
  }
  for (const [name, value] of texts) checkText(name, value);
}

function list<T>(name: string, value: readonly T[]): readonly T[] {
  if (!Array.isArray(value)) throw new InvalidInputError(`${name} is of type ${typeof value}: expected a list`);
  return value;
}

function checkText(name: string, value: unknown): void {
  if (typeof value !== 'string') throw new InvalidInputError(`${name} is of type ${typeof value}: expected a string`);
  if (!isWellFormed(value)) throw new InvalidInputError(`${name} has half of a surrogate pair: expected Unicode text`);
}
