import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import type { Content, Entry } from './entry.js';
import { headersKind, storedHeaders, textsKind } from './header.js';
import {
  child,
  countKind,
  demand,
  flagKind,
  horizonKind,
  instantKind,
  N,
  periodKind,
  type Row,
  read,
  S,
  statusKind,
  text,
  textKind,
} from './row.js';

/**
 * The attributes of the reference schema, in META and in VER# rows, as they are
 * stored; undefined: absent. A publish sets or removes every one of them, so that no
 * generation inherits from another.
 */
export function storedContent(content: Content, currentSk: string): Record<string, AttributeValue | undefined> {
  return {
    s3_key: S(content.htmlPointer),
    generated_at: N(content.generatedAtMs / 1000),
    revalidate_seconds: N(content.revalidateSeconds),
    etag: content.etag ? S(content.etag) : undefined,
    ttl: content.ttlUnixSeconds === undefined ? undefined : N(content.ttlUnixSeconds),
    current_sk: currentSk ? S(currentSk) : undefined,
  };
}

/**
 * The map `isr` of a normalized entry. `s3_key` and `generated_at` say which content
 * it describes. The version is apart, as it may be larger than a number can say.
 */
export function storedMap(e: Entry, version: bigint): AttributeValue {
  const members: Record<string, AttributeValue | undefined> = {
    v: N(version),
    generation_id: S(e.generationId),
    s3_key: S(e.htmlPointer),
    generated_at: N(e.generatedAtMs / 1000),
    key: e.key ? S(e.key) : undefined,
    route: e.route ? S(e.route) : undefined,
    status: N(e.status),
    headers: storedHeaders(e.headers),
    content_sha256: e.contentSha256 ? S(e.contentSha256) : undefined,
    content_length: N(e.contentLength),
    tags: e.tags.length > 0 ? { L: e.tags.map(S) } : undefined,
    stale_seconds: N(e.staleSeconds),
    purge_seq: N(e.purgeSeq),
    pinned_until: e.pinnedUntilMs === undefined ? undefined : N(e.pinnedUntilMs / 1000),
    asserted_at: e.assertedAtMs === undefined ? undefined : N(e.assertedAtMs / 1000),
    render_ms: e.renderMs > 0 ? N(e.renderMs) : undefined,
    withdrawn: e.withdrawn ? { BOOL: true } : undefined,
  };
  return { M: present(members) };
}

/** The attributes that there are. */
export function present(attributes: Record<string, AttributeValue | undefined>): Row {
  return Object.fromEntries(
    Object.entries(attributes).filter((a): a is [string, AttributeValue] => a[1] !== undefined),
  );
}

/**
 * The entry that a META row or a VER# row carries.
 * @throws MalformedRowError
 */
export function contentOf(row: Row): Entry {
  demand(row, 's3_key', textKind);
  demand(row, 'generated_at', instantKind);
  demand(row, 'revalidate_seconds', periodKind);
  // Another service wrote this row, or wrote over one of ours: nothing that we
  // knew of the earlier content may be said of this one.
  if (!isOurs(row)) return { ...readContent(row), ...nothingElse() };
  // The map claims this very content, so that its status and its headers are what
  // the page is: serving it with guessed ones would be worse than rendering it again.
  demand(row, 'isr.v', countKind);
  demand(row, 'isr.generation_id', textKind);
  demand(row, 'isr.status', statusKind);
  demand(row, 'isr.content_length', countKind);
  return { ...readContent(row), ...readMap(row) };
}

/**
 * Whether our map is about the content that the row points at. A map that does not
 * say so in the right types is none of ours. Times are compared as texts: DynamoDB
 * returns equal numbers as equal texts, and a fraction is another number than the
 * whole seconds that we write.
 */
function isOurs(row: Row): boolean {
  const ours = child(row, 'isr');
  const body = text(ours, 's3_key');
  const at = ours?.['generated_at']?.N;
  return body !== '' && body === text(row, 's3_key') && at !== undefined && at === row['generated_at']?.N;
}

function readContent(row: Row): Content {
  const etag = read(row, 'etag', textKind);
  const hasTtl = row['ttl'] !== undefined && row['ttl'].NULL === undefined;
  const ttl = read(row, 'ttl', horizonKind);
  read(row, 'current_sk', textKind); // whoever follows pointers must be able to
  return {
    htmlPointer: read(row, 's3_key', textKind),
    generatedAtMs: read(row, 'generated_at', instantKind) * 1000,
    revalidateSeconds: read(row, 'revalidate_seconds', periodKind),
    ...(etag ? { etag } : {}),
    ...(hasTtl ? { ttlUnixSeconds: ttl } : {}),
  };
}

type Map = Omit<Entry, keyof Content>;

/** What is known of an entry of another service beside its content. */
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
    renderMs: 0,
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
    ...(pinned > 0 ? { pinnedUntilMs: pinned * 1000 } : {}),
    ...(asserted > 0 ? { assertedAtMs: asserted * 1000 } : {}),
    renderMs: read(row, 'isr.render_ms', countKind),
    ...(read(row, 'isr.withdrawn', flagKind) ? { withdrawn: true as const } : {}),
  };
}
