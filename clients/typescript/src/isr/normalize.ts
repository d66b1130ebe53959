import { earliest } from '../clock.js';
import { InvalidInputError } from '../errors.js';
import type { Entry, HeaderFields, NextEntry } from './entry.js';
import { isWellFormed } from './key.js';
import { BOUNDS } from './names.js';
import { interval, wholeSeconds } from './numbers.js';

/**
 * Returns the entry as readers will see it: `generatedAtMs` in whole milliseconds, other times and
 * intervals in whole seconds.
 * Intervals are capped at ten years.
 * @throws InvalidInputError if a value cannot be stored or makes no sense.
 */
export function normalize(next: NextEntry, generationId: string): Entry {
  checkNumbers(next);
  checkTexts(next, generationId);
  return {
    htmlPointer: next.htmlPointer,
    generatedAtMs: Math.floor(next.generatedAtMs),
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
    build: next.build ?? 0,
    ...(next.pinnedUntilMs ? { pinnedUntilMs: wholeSeconds(next.pinnedUntilMs) * 1000 } : {}),
    ...(next.assertedAtMs ? { assertedAtMs: wholeSeconds(next.assertedAtMs) * 1000 } : {}),
    renderMs: Math.min(Math.floor(next.renderMs ?? 0), BOUNDS.interval * 1000),
    initialAgeSeconds: interval(next.initialAgeSeconds ?? 0),
  };
}

/** Lower-cases field names. Names that differ only in case are one field, with the values joined in the order of the names. */
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
  if (e.generatedAtMs === 0) throw new InvalidInputError('generatedAtMs must be the time when rendering began (got 0)');
  checkOptional(e, 'pinnedUntilMs', checkPinEnd);
  checkOptional(e, 'assertedAtMs', checkMoment);
  checkOptional(e, 'ttlUnixSeconds', checkSeconds);
  checkInterval('revalidateSeconds', e.revalidateSeconds);
  checkOptional(e, 'staleSeconds', checkInterval);
  checkOptional(e, 'renderMs', checkInterval);
  checkOptional(e, 'initialAgeSeconds', checkInterval);
  checkOptional(e, 'purgeSeq', checkCount);
  checkOptional(e, 'build', checkCount);
  checkCount('contentLength', e.contentLength);
  const { status = 200 } = e;
  if (!Number.isInteger(status) || status < BOUNDS.minStatus || status > BOUNDS.maxStatus) {
    throw new InvalidInputError(
      `status must be an HTTP status, ${BOUNDS.minStatus} to ${BOUNDS.maxStatus} (got ${status})`,
    );
  }
}

function checkOptional(e: NextEntry, name: keyof NextEntry, check: (name: string, value: number) => void): void {
  const value = e[name];
  if (value !== undefined) check(name, value as number);
}

/** Checks a time in epoch milliseconds, up to the year 9999. @throws InvalidInputError */
export function checkMoment(name: string, ms: number): void {
  if (!isNumber(ms) || ms < 0 || ms >= (BOUNDS.moment + 1) * 1000) {
    throw new InvalidInputError(
      `${name} must be epoch milliseconds, 0 to ${BOUNDS.moment}999, the end of the year 9999 (got ${ms})`,
    );
  }
}

/**
 * Checks when a pin ends, in epoch milliseconds; 0 is no pin. A time in seconds would be one
 * that has passed long ago, and pin nothing.
 * @throws InvalidInputError
 */
export function checkPinEnd(name: string, ms: number): void {
  checkMoment(name, ms);
  if (ms > 0 && ms < earliest) {
    throw new InvalidInputError(`${name} must be epoch milliseconds (got ${ms}, which looks like a time in seconds)`);
  }
}

/** Checks a time in epoch seconds, up to the year 9999. @throws InvalidInputError */
export function checkSeconds(name: string, seconds: number): void {
  if (!isNumber(seconds) || seconds < 0 || seconds > BOUNDS.moment) {
    throw new InvalidInputError(
      `${name} must be epoch seconds, 0 to ${BOUNDS.moment}, the end of the year 9999 (got ${seconds}); divide milliseconds by 1,000`,
    );
  }
}

/** Checks a duration of at least 0. @throws InvalidInputError */
export function checkInterval(name: string, duration: number): void {
  if (!isNumber(duration) || duration < 0) {
    throw new InvalidInputError(`${name} must be a number of at least 0 (got ${duration})`);
  }
}

function checkCount(name: string, n: number): void {
  if (!Number.isSafeInteger(n) || n < 0) {
    throw new InvalidInputError(`${name} must be an integer from 0 to ${BOUNDS.count} (got ${n})`);
  }
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && !Number.isNaN(value);
}

/** Rejects texts that DynamoDB cannot store and the SDK would silently alter. */
function checkTexts(e: NextEntry, generationId: string): void {
  const required = { htmlPointer: e.htmlPointer, generationId };
  for (const [name, value] of Object.entries(required)) {
    if (value === '') throw new InvalidInputError(`${name} is empty: expected text`);
  }
  const { etag = '', key = '', route = '', contentSha256 } = e;
  const texts = Object.entries({ ...required, etag, key, route, contentSha256 });
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
  if (!isWellFormed(value)) throw new InvalidInputError(`${name} has a lone surrogate: expected Unicode text`);
}
