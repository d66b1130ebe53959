import { MalformedRowError } from '../errors.js';
import { type Backend, queryAll, readRow } from './backend.js';
import type { Entry, Lock, PurgeState } from './entry.js';
import { Fence, versionOf } from './fence.js';
import { NEVER_PURGED } from './freshness.js';
import { lockOf } from './lockrow.js';
import { contentOf } from './metarow.js';
import { BOUNDS, PREFIX, SK } from './names.js';
import { clamp } from './numbers.js';
import { purgeStateOf } from './purgerow.js';
import { child, horizonKind, malformed, type Row, read, S, text } from './row.js';

/** A consistent snapshot of a page. */
export interface PageRecord {
  /** The current entry; absent if it is missing or malformed. */
  readonly entry?: Entry;
  /** The purge state of this page; zeros if it was never purged. */
  readonly purge: PurgeState;
  /** The lease row, if it exists. */
  readonly lock?: Lock;
  /** The error of malformed rows; the entry then counts as missing. */
  readonly malformed?: MalformedRowError;
  /** Lets the store detect writes since the read. */
  readonly fence: Fence;
}

/**
 * Reads a page with one strongly consistent query of three small rows. If META points at a
 * version row without carrying its content, it costs one more read.
 */
export async function readPage(b: Backend, signal: AbortSignal | undefined, pk: string): Promise<PageRecord> {
  // The range may include rows of other services, even several pages of them; they are ignored.
  const found = await queryAll(b, signal, {
    KeyConditionExpression: 'pk = :pk AND sk BETWEEN :first AND :last',
    ExpressionAttributeValues: { ':pk': S(pk), ':first': S(SK.lock), ':last': S(SK.purge) },
  });
  const rows = new Map(found.map((row) => [text(row, 'sk'), row]));
  const known: { lock?: Lock; purge: PurgeState } = { purge: NEVER_PURGED };
  const fence = new Fence(pk, rows.get(SK.meta), rows.get(SK.lock));
  try {
    const entry = await fill(b, signal, rows, known);
    return { ...known, ...(entry ? { entry } : {}), fence };
  } catch (error) {
    if (error instanceof MalformedRowError) return { ...known, malformed: error, fence };
    throw error;
  }
}

async function fill(
  b: Backend,
  signal: AbortSignal | undefined,
  rows: ReadonlyMap<string, Row>,
  known: { lock?: Lock; purge: PurgeState },
): Promise<Entry | undefined> {
  const lock = rows.get(SK.lock);
  if (lock) known.lock = lockOf(lock);
  // Before META: a malformed purge row may cover any entry.
  const purge = rows.get(SK.purge);
  if (purge) known.purge = purgeStateOf(purge);
  const meta = rows.get(SK.meta);
  return meta && entryOf(b, signal, meta);
}

/** Returns the entry of a META row, reading the version row if META does not carry the content itself. */
async function entryOf(b: Backend, signal: AbortSignal | undefined, meta: Row): Promise<Entry> {
  const current = pointer(meta);
  if (current === '') return contentOf(meta);
  // The content of a version row is immutable, so this second read is consistent with the
  // first.
  const version = await readRow(b, signal, text(meta, 'pk'), current);
  if (!version) throw malformed(meta, 'current_sk', 'the sort key of an existing row', ', which does not exist');
  const { ttlUnixSeconds: _, ...content } = contentOf(version);
  // The version (fence) and the ttl are META's.
  const v = content.foreign ? 0n : (versionOf(meta) ?? 0n);
  return { ...content, ...metaTtl(meta), version: clamp(v, 0, BOUNDS.count) };
}

/**
 * Returns the sort key of the version row with META's content; empty if META carries the
 * content itself. Our publishes keep current_sk and isr.generation_id in step. If they
 * differ, another service has swapped the pointer since, and META's own content is outdated.
 */
function pointer(meta: Row): string {
  const current = text(meta, 'current_sk');
  const stored = meta['current_sk'];
  if (current === '') {
    if (stored && stored.S === undefined && stored.NULL === undefined) throw malformed(meta, 'current_sk', 'a string');
    return '';
  }
  const generation = text(child(meta, 'isr'), 'generation_id');
  if (generation === '' && text(meta, 's3_key') !== '') return ''; // another service's row, with its content
  return current === PREFIX.version + generation ? '' : current;
}

/** Returns the ttl of a META row. An invalid ttl is ignored, so that the pointer can still be followed. */
function metaTtl(meta: Row): { ttlUnixSeconds?: number } {
  const stored = meta['ttl'];
  if (!stored || stored.NULL !== undefined || horizonKind.read(stored) === undefined) return {};
  return { ttlUnixSeconds: read(meta, 'ttl', horizonKind) };
}
