import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import type { Content, Entry } from './entry.js';
import { headersKind, storedHeaders, textsKind } from './header.js';
import { floorOf } from './numbers.js';
import {
  child,
  countKind,
  flagKind,
  horizonKind,
  instantKind,
  N,
  periodKind,
  type Row,
  read,
  requirePresent,
  S,
  statusKind,
  text,
  textKind,
} from './row.js';

/**
 * Builds the attributes of the reference schema in META and VER# rows; undefined means
 * absent. A publish sets or removes every one of them, so that no generation inherits from
 * another.
 */
export function storedContent(content: Content, currentSk: string): Record<string, AttributeValue | undefined> {
  return {
    s3_key: S(content.htmlPointer),
    generated_at: N(Math.floor(content.generatedAtMs / 1000)),
    revalidate_seconds: N(content.revalidateSeconds),
    etag: content.etag ? S(content.etag) : undefined,
    ttl: content.ttlUnixSeconds === undefined ? undefined : N(content.ttlUnixSeconds),
    current_sk: currentSk ? S(currentSk) : undefined,
  };
}

/**
 * Builds the map `isr` of a normalized entry. Its `s3_key` and `generated_at` identify the
 * content it describes. The version is a bigint, since it may exceed the exact numbers.
 */
export function storedMap(e: Entry, version: bigint): AttributeValue {
  const members: Record<string, AttributeValue | undefined> = {
    v: N(version),
    generation_id: S(e.generationId),
    s3_key: S(e.htmlPointer),
    generated_at: N(Math.floor(e.generatedAtMs / 1000)),
    generated_ms: e.generatedAtMs % 1000 === 0 ? undefined : N(e.generatedAtMs),
    key: e.key ? S(e.key) : undefined,
    route: e.route ? S(e.route) : undefined,
    status: N(e.status),
    headers: storedHeaders(e.headers),
    content_sha256: e.contentSha256 ? S(e.contentSha256) : undefined,
    content_length: N(e.contentLength),
    tags: e.tags.length > 0 ? { L: e.tags.map(S) } : undefined,
    stale_seconds: N(e.staleSeconds),
    purge_seq: N(e.purgeSeq),
    build: e.build > 0 ? N(e.build) : undefined,
    pinned_until: e.pinnedUntilMs === undefined ? undefined : N(e.pinnedUntilMs / 1000),
    asserted_at: e.assertedAtMs === undefined ? undefined : N(e.assertedAtMs / 1000),
    render_ms: e.renderMs > 0 ? N(e.renderMs) : undefined,
    age_seconds: e.initialAgeSeconds > 0 ? N(e.initialAgeSeconds) : undefined,
    withdrawn: e.withdrawn ? { BOOL: true } : undefined,
  };
  return { M: present(members) };
}

/** Drops undefined attributes. */
export function present(attributes: Record<string, AttributeValue | undefined>): Row {
  return Object.fromEntries(
    Object.entries(attributes).filter((a): a is [string, AttributeValue] => a[1] !== undefined),
  );
}

/**
 * Parses the entry of a META or VER# row.
 * @throws MalformedRowError
 */
export function contentOf(row: Row): Entry {
  requirePresent(row, 's3_key', textKind);
  requirePresent(row, 'generated_at', instantKind);
  requirePresent(row, 'revalidate_seconds', periodKind);
  // Another service wrote this row, or overwrote ours: our metadata describes earlier content.
  if (!isOurs(row)) return { ...readContent(row), ...nothingElse() };
  // Our map describes this content, so its status and headers are required: guessing them
  // would be worse than rendering the page again.
  requirePresent(row, 'isr.v', countKind);
  requirePresent(row, 'isr.generation_id', textKind);
  requirePresent(row, 'isr.status', statusKind);
  requirePresent(row, 'isr.content_length', countKind);
  const content = readContent(row);
  return { ...content, generatedAtMs: exactTime(row, content.generatedAtMs), ...readMap(row) };
}

/**
 * Reports whether our map describes the content that the row points at. A map with other
 * types is not ours. Times are compared as texts: DynamoDB returns equal numbers as equal
 * texts, and a fraction differs from the whole seconds that we write.
 */
function isOurs(row: Row): boolean {
  const ours = child(row, 'isr');
  const body = text(ours, 's3_key');
  const at = ours?.['generated_at']?.N;
  return body !== '' && body === text(row, 's3_key') && at !== undefined && at === row['generated_at']?.N;
}

/** Returns `generated_ms` if it is in the second of `generated_at`, else that second, in epoch milliseconds. */
function exactTime(row: Row, secondMs: number): number {
  const stored = child(row, 'isr')?.['generated_ms'];
  const ms = Number((stored && floorOf(stored)) ?? 0n);
  return ms >= secondMs && ms < secondMs + 1000 ? ms : secondMs;
}

function readContent(row: Row): Content {
  const etag = read(row, 'etag', textKind);
  const hasTtl = row['ttl'] !== undefined && row['ttl'].NULL === undefined;
  const ttl = read(row, 'ttl', horizonKind);
  read(row, 'current_sk', textKind); // checked for readers that follow pointers
  return {
    htmlPointer: read(row, 's3_key', textKind),
    generatedAtMs: read(row, 'generated_at', instantKind) * 1000,
    revalidateSeconds: read(row, 'revalidate_seconds', periodKind),
    ...(etag ? { etag } : {}),
    ...(hasTtl ? { ttlUnixSeconds: ttl } : {}),
  };
}

type Map = Omit<Entry, keyof Content>;

/** The metadata of another service's entry beyond its content. */
function nothingElse(): Map {
  return {
    foreign: true,
    version: 0,
    generationId: '',
    key: '',
    route: '',
    status: 200,
    headers: {},
    contentSha256: '',
    contentLength: 0,
    tags: [],
    staleSeconds: 0,
    purgeSeq: 0,
    build: 0,
    renderMs: 0,
    initialAgeSeconds: 0,
  };
}

function readMap(row: Row): Map {
  const pinned = read(row, 'isr.pinned_until', horizonKind);
  const asserted = read(row, 'isr.asserted_at', instantKind);
  return {
    foreign: false,
    version: read(row, 'isr.v', countKind),
    generationId: read(row, 'isr.generation_id', textKind),
    key: read(row, 'isr.key', textKind),
    route: read(row, 'isr.route', textKind),
    status: read(row, 'isr.status', statusKind),
    headers: read(row, 'isr.headers', headersKind),
    contentSha256: read(row, 'isr.content_sha256', textKind),
    contentLength: read(row, 'isr.content_length', countKind),
    tags: read(row, 'isr.tags', textsKind),
    staleSeconds: read(row, 'isr.stale_seconds', periodKind),
    purgeSeq: read(row, 'isr.purge_seq', countKind),
    build: read(row, 'isr.build', countKind),
    ...(pinned > 0 ? { pinnedUntilMs: pinned * 1000 } : {}),
    ...(asserted > 0 ? { assertedAtMs: asserted * 1000 } : {}),
    renderMs: read(row, 'isr.render_ms', countKind),
    initialAgeSeconds: read(row, 'isr.age_seconds', countKind),
    ...(read(row, 'isr.withdrawn', flagKind) ? { withdrawn: true as const } : {}),
  };
}
