/** The vectors of spec/, and this package's values in their words. */

import { readFileSync } from 'node:fs';

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import type {
  Cover,
  Entry,
  HeaderFields,
  HeaderValue,
  Lock,
  NextEntry,
  PageRecord,
  RequestRecord,
} from '../../src/isr/index.js';
import type { Item } from '../../src/item.js';

/** An object of a vector file. */
// biome-ignore lint/suspicious/noExplicitAny: the formats are those of spec/README.md
export type Vector = Record<string, any>;

/** A file of vectors. */
export function vectors(file: string): Record<string, Vector[]> & { cache_key: string; pk: string } {
  const url = new URL(`../../../../../spec/vectors/${file}`, import.meta.url); // from build/test/isr
  return JSON.parse(readFileSync(url, 'utf8'));
}

/** An item of DynamoDB's JSON, as the SDK has it. */
export function itemOf(stored: Record<string, Vector>): Item {
  return Object.fromEntries(Object.entries(stored).map(([name, value]) => [name, attributeOf(value)]));
}

function attributeOf(v: Vector): AttributeValue {
  if (v['B'] !== undefined) return { B: Buffer.from(v['B'], 'base64') };
  if (v['BS'] !== undefined) return { BS: v['BS'].map((b: string) => Buffer.from(b, 'base64')) };
  if (v['M'] !== undefined) return { M: itemOf(v['M']) };
  if (v['L'] !== undefined) return { L: v['L'].map(attributeOf) };
  return v as AttributeValue;
}

/** Items in a form in which equal ones are deeply equal, and a list of them in one order. */
export function comparable(items: readonly Item[]): unknown[] {
  const key = (item: Item) => JSON.stringify([item['pk']?.S, item['sk']?.S]);
  return [...items].sort((a, b) => (key(a) < key(b) ? -1 : 1)).map(comparableItem);
}

function comparableItem(item: Item): unknown {
  const masked = item['pk']?.S === 'PURGE' && item['id']?.S ? { ...item, id: { S: '*' } } : item;
  return Object.fromEntries(Object.entries(masked).map(([name, value]) => [name, comparableValue(value)]));
}

function comparableValue(av: AttributeValue): unknown {
  if (av.N !== undefined) return { N: decimal(av.N) };
  if (av.NS !== undefined) return { NS: av.NS.map(decimal).sort() };
  if (av.SS !== undefined) return { SS: [...av.SS].sort() };
  if (av.B !== undefined) return { B: Buffer.from(av.B).toString('base64') };
  if (av.BS !== undefined) return { BS: av.BS.map((b) => Buffer.from(b).toString('base64')).sort() };
  if (av.L !== undefined) return { L: av.L.map(comparableValue) };
  return av.M === undefined ? av : { M: comparableItem(av.M) };
}

/** A decimal number without what does not change it; the vectors have none with exponents. */
function decimal(digits: string): string {
  return digits.includes('.') ? digits.replace(/0+$/, '').replace(/\.$/, '') : digits;
}

/** The entry of a vector, to be published. What is not there is empty. */
export function nextOf(e: Vector): NextEntry {
  return {
    htmlPointer: e['s3_key'] ?? '',
    generatedAtMs: ms(e['generated_at']) ?? 0,
    revalidateSeconds: e['revalidate_seconds'] ?? 0,
    contentSha256: e['content_sha256'] ?? '',
    contentLength: e['content_length'] ?? 0,
    generationId: e['generation_id'] ?? '',
    purgeSeq: e['purge_seq'] ?? 0,
    ...optional('etag', e['etag']),
    ...optional('ttlUnixSeconds', e['ttl']),
    key: e['key'] ?? '',
    ...optional('route', e['route']),
    ...optional('status', e['status']),
    ...optional('headers', Array.isArray(e['headers']) ? e['headers'] : e['headers'] && headersOf(e['headers'])),
    ...optional('tags', e['tags']),
    ...optional('staleSeconds', e['stale_seconds']),
    ...optional('pinnedUntilMs', ms(e['pinned_until'])),
    ...optional('assertedAtMs', ms(e['asserted_at'])),
    ...optional('renderMs', e['render_ms']),
  };
}

/** What the freshness rule looks at. */
export function datedOf(e: Vector) {
  const { generatedAtMs, revalidateSeconds, staleSeconds = 0, purgeSeq = 0, ...rest } = nextOf(e);
  const dated = { generatedAtMs, revalidateSeconds, staleSeconds, purgeSeq, foreign: e['foreign'] ?? false };
  return {
    ...dated,
    ...optional('pinnedUntilMs', rest.pinnedUntilMs),
    ...optional('assertedAtMs', rest.assertedAtMs),
    ...optional('withdrawn', e['withdrawn']),
  };
}

/** Epoch seconds in milliseconds; what is no number stays as it is. */
// biome-ignore lint/suspicious/noExplicitAny: bad input is passed on
export function ms(seconds: any): any {
  return typeof seconds === 'number' ? seconds * 1000 : seconds;
}

export function optional<K extends string, T>(name: K, value: T | undefined): { [name in K]?: T } {
  return value === undefined ? {} : ({ [name]: value } as { [name in K]?: T });
}

function headersOf(fields: Record<string, (string | { base64: string })[]>): HeaderFields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, values]) => [
      name,
      values.map((v): HeaderValue => (typeof v === 'string' ? v : Buffer.from(v.base64, 'base64'))),
    ]),
  );
}

/** An entry in the words of the vectors; what is empty is absent. */
export function entryVector(e: Entry): Vector {
  return present({
    s3_key: e.htmlPointer,
    generated_at: e.generatedAtMs / 1000,
    revalidate_seconds: e.revalidateSeconds,
    etag: e.etag,
    ttl: e.ttlUnixSeconds,
    foreign: e.foreign,
    v: e.version,
    generation_id: e.generationId,
    key: e.key,
    route: e.route,
    status: e.status,
    headers: present(
      Object.fromEntries(Object.entries(e.headers).map(([name, values]) => [name, values.map(headerVector)])),
      true,
    ),
    content_sha256: e.contentSha256,
    content_length: e.contentLength,
    tags: e.tags,
    stale_seconds: e.staleSeconds,
    purge_seq: e.purgeSeq,
    pinned_until: (e.pinnedUntilMs ?? 0) / 1000,
    asserted_at: (e.assertedAtMs ?? 0) / 1000,
    render_ms: e.renderMs,
    withdrawn: e.withdrawn,
  });
}

function headerVector(v: HeaderValue): unknown {
  return typeof v === 'string' ? v : { base64: Buffer.from(v).toString('base64') };
}

export function coverOf(c: Vector = {}): Cover {
  return {
    seq: c['seq'] ?? 0,
    hardSeq: c['hard_seq'] ?? 0,
    atMs: (c['at'] ?? 0) * 1000,
    markLifetimeSeconds: c['mark_lifetime'] ?? 0,
  };
}

function lockVector(lock: Lock): Vector {
  return present({ owner: lock.owner, lease_expires_at: lock.expiresAtMs / 1000, failures: lock.failures });
}

/** A record in the words of the vectors, without what is for people. */
export function recordVector(r: PageRecord): Vector {
  const { seq, hardSeq, atMs } = r.cover;
  const cover = present({ seq, hard_seq: hardSeq, at: atMs / 1000 });
  return {
    ...optional('entry', r.entry && entryVector(r.entry)),
    ...(Object.keys(cover).length > 0 ? { cover } : {}),
    ...optional('lock', r.lock && lockVector(r.lock)),
    ...optional('malformed', r.malformed && whichOf(r.malformed)),
  };
}

/** Of a vector of the malformed, or of the error, what is not for people alone. */
export function whichOf({ pk, sk, attribute }: { pk: string; sk: string; attribute: string }): Vector {
  return { pk, sk, attribute };
}

export function requestVector(r: RequestRecord): Vector {
  return present({
    request_hash: r.requestHash,
    status: r.status,
    result_s3_key: r.htmlPointer,
    generation_id: r.generationId,
    in_progress_until: (r.inProgressUntilMs ?? 0) / 1000,
    error: r.failure,
  });
}

/** The members that are not empty; of headers, empty lists stay. */
function present(members: Record<string, unknown>, lists = false): Vector {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => !isEmpty(value, lists)));
}

function isEmpty(value: unknown, lists: boolean): boolean {
  if (value === undefined || value === 0 || value === '' || value === false) return true;
  if (Array.isArray(value)) return value.length === 0 && !lists;
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
