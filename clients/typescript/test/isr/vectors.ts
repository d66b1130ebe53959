/** Reads the test vectors of spec/, and converts this package's values to their format. */

import { readFileSync } from 'node:fs';

import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import type {
  Entry,
  HeaderFields,
  HeaderValue,
  Lock,
  Mark,
  NextEntry,
  PageRecord,
  PurgeState,
  RequestRecord,
} from '../../src/isr/index.js';
import type { Item } from '../../src/item.js';

/** An object of a vector file. */
// biome-ignore lint/suspicious/noExplicitAny: spec/README.md defines the formats
export type Vector = Record<string, any>;

/** Reads a file of vectors. */
export function vectors(file: string): Record<string, Vector[]> & { cache_key: string; pk: string } {
  const url = new URL(`../../../../../spec/vectors/${file}`, import.meta.url); // from build/test/isr
  return JSON.parse(readFileSync(url, 'utf8'));
}

/** Converts an item from DynamoDB JSON to the SDK's form. */
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

/** Normalizes and sorts items, so that equal lists are deeply equal. */
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

/** Removes trailing zeros of a decimal; the vectors have no exponents. */
function decimal(digits: string): string {
  return digits.includes('.') ? digits.replace(/0+$/, '').replace(/\.$/, '') : digits;
}

/** Converts a vector's entry to one to publish. Missing members are empty. */
export function nextOf(e: Vector): NextEntry {
  return {
    htmlPointer: e['s3_key'] ?? '',
    generatedAtMs: e['generated_ms'] ?? ms(e['generated_at']) ?? 0,
    revalidateSeconds: e['revalidate_seconds'] ?? 0,
    contentSha256: e['content_sha256'] ?? '',
    contentLength: e['content_length'] ?? 0,
    generationId: e['generation_id'] ?? '',
    purgeSeq: e['purge_seq'] ?? 0,
    ...optional('build', e['build']),
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
    ...optional('initialAgeSeconds', e['age_seconds']),
  };
}

/** Converts a vector's entry to the input of the freshness rule. */
export function datedOf(e: Vector) {
  const {
    generatedAtMs,
    revalidateSeconds,
    staleSeconds = 0,
    purgeSeq = 0,
    build = 0,
    initialAgeSeconds = 0,
    ...rest
  } = nextOf(e);
  const dated = {
    generatedAtMs,
    revalidateSeconds,
    staleSeconds,
    purgeSeq,
    build,
    initialAgeSeconds,
    foreign: e['foreign'] ?? false,
  };
  return {
    ...dated,
    ...optional('pinnedUntilMs', rest.pinnedUntilMs),
    ...optional('assertedAtMs', rest.assertedAtMs),
    ...optional('withdrawn', e['withdrawn']),
  };
}

/** Converts epoch seconds to milliseconds; other types are passed through. */
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

/** Converts an entry to the vectors' format; empty members are omitted. */
export function entryVector(e: Entry): Vector {
  return present({
    s3_key: e.htmlPointer,
    generated_at: Math.floor(e.generatedAtMs / 1000),
    generated_ms: e.generatedAtMs % 1000 === 0 ? 0 : e.generatedAtMs,
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
    build: e.build,
    pinned_until: (e.pinnedUntilMs ?? 0) / 1000,
    asserted_at: (e.assertedAtMs ?? 0) / 1000,
    render_ms: e.renderMs,
    age_seconds: e.initialAgeSeconds,
    withdrawn: e.withdrawn,
  });
}

function headerVector(v: HeaderValue): unknown {
  return typeof v === 'string' ? v : { base64: Buffer.from(v).toString('base64') };
}

export function purgeStateOf(c: Vector = {}): PurgeState {
  return {
    seq: c['seq'] ?? 0,
    hardSeq: c['hard_seq'] ?? 0,
    atMs: (c['at'] ?? 0) * 1000,
    markLifetimeSeconds: c['mark_lifetime'] ?? 0,
    build: c['build'] ?? 0,
  };
}

function lockVector(lock: Lock): Vector {
  return present({ owner: lock.owner, lease_expires_at: lock.expiresAtMs / 1000, failures: lock.failures });
}

/** Converts a record to the vectors' format, without descriptive texts. */
export function recordVector(r: PageRecord): Vector {
  const { seq, hardSeq, atMs } = r.purge;
  const cover = present({ seq, hard_seq: hardSeq, at: atMs / 1000 });
  return {
    ...optional('entry', r.entry && entryVector(r.entry)),
    ...(Object.keys(cover).length > 0 ? { cover } : {}),
    ...optional('lock', r.lock && lockVector(r.lock)),
    ...optional('malformed', r.malformed && whichOf(r.malformed)),
  };
}

/** Picks the comparable members of a MalformedRowError or its vector. */
export function whichOf({ pk, sk, attribute }: { pk: string; sk: string; attribute: string }): Vector {
  return { pk, sk, attribute };
}

/** Converts a purge mark to the vectors' format. */
export function markVector(m: Mark): Vector {
  return present({
    kind: m.kind,
    tenant: m.tenant,
    value: m.value,
    seq: m.seq,
    hard_seq: m.hardSeq,
    at: m.atMs / 1000,
    expire_seq: m.expireSeq,
    expire_at: m.expireAtMs / 1000,
  });
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

/** Drops empty members; with `lists`, empty lists stay, as for headers. */
function present(members: Record<string, unknown>, lists = false): Vector {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => !isEmpty(value, lists)));
}

function isEmpty(value: unknown, lists: boolean): boolean {
  if (value === undefined || value === 0 || value === '' || value === false) return true;
  if (Array.isArray(value)) return value.length === 0 && !lists;
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
