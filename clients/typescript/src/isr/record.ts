import { MalformedRowError } from '../errors.js';
import { type Backend, queryAll, readRow } from './backend.js';
import type { Cover, Entry, Lock } from './entry.js';
import { Fence, versionOf } from './fence.js';
import { NO_COVER } from './freshness.js';
import { lockOf } from './lockrow.js';
import { contentOf } from './metarow.js';
import { BOUNDS, PREFIX, SK } from './names.js';
import { clamp } from './numbers.js';
import { coverOf } from './purgerow.js';
import { child, horizonKind, malformed, type Row, read, S, text } from './row.js';

/** One consistent read of a page. */
export interface PageRecord {
  /** The current entry; absent if there is none, or none that is valid. */
  readonly entry?: Entry;
  /** The purge of this very page; of zeros if it was never purged. */
  readonly cover: Cover;
  /** The lease row, if there is one. */
  readonly lock?: Lock;
  /** Why the stored rows could not be used: the entry then counts as missing. */
  readonly malformed?: MalformedRowError;
  /** What the store needs to recognise that nothing was written since. */
  readonly fence: Fence;
}

/**
 * Reads a page: one strongly consistent query of three small rows; a META row that
 * names a version which it does not carry costs one read more.
 */
export async function readPage(b: Backend, signal: AbortSignal | undefined, pk: string): Promise<PageRecord> {
  // Rows of other services that sort between are passed over, on further pages if they are many.
  const found = await queryAll(b, signal, {
    KeyConditionExpression: 'pk = :pk AND sk BETWEEN :first AND :last',
    ExpressionAttributeValues: { ':pk': S(pk), ':first': S(SK.lock), ':last': S(SK.purge) },
  });
  const rows = new Map(found.map((row) => [text(row, 'sk'), row]));
  const known: { lock?: Lock; cover: Cover } = { cover: NO_COVER };
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
  known: { lock?: Lock; cover: Cover },
): Promise<Entry | undefined> {
  const lock = rows.get(SK.lock);
  if (lock) known.lock = lockOf(lock);
  // If it is malformed, it may cover whatever META has.
  const purge = rows.get(SK.purge);
  if (purge) known.cover = coverOf(purge);
  const meta = rows.get(SK.meta);
  return meta && entryOf(b, signal, meta);
}

/** The entry of a META row, from the version row it points at if it does not carry the content itself. */
async function entryOf(b: Backend, signal: AbortSignal | undefined, meta: Row): Promise<Entry> {
  const current = pointer(meta);
  if (current === '') return contentOf(meta);
  // A version row never changes what it says of its content, so that this second
  // read belongs to the moment of the first.
  const version = await readRow(b, signal, text(meta, 'pk'), current);
  if (!version) throw malformed(meta, 'current_sk', 'the sort key of a row', ', which is not there');
  const { ttlUnixSeconds: _, ...content } = contentOf(version);
  // Version and garbage collection are the pointer's own.
  const v = content.foreign ? 0n : (versionOf(meta) ?? 0n);
  return { ...content, ...metaTtl(meta), version: clamp(v, 0, BOUNDS.count) };
}

/**
 * The sort key of the row that has the content of a META row; empty if META has it
 * itself. Every publish of ours leaves current_sk in step with isr.generation_id. If
 * they differ, a service that swaps pointers was here after us, and what META carries
 * beside the pointer is the content of before.
 */
function pointer(meta: Row): string {
  const current = text(meta, 'current_sk');
  const stored = meta['current_sk'];
  if (current === '') {
    if (stored && stored.S === undefined && stored.NULL === undefined) throw malformed(meta, 'current_sk', 'a string');
    return '';
  }
  const generation = text(child(meta, 'isr'), 'generation_id');
  if (generation === '' && text(meta, 's3_key') !== '') return ''; // another service's, content and all
  return current === PREFIX.version + generation ? '' : current;
}

/** When a META row may be collected. What makes no sense there does not keep a pointer from being followed. */
function metaTtl(meta: Row): { ttlUnixSeconds?: number } {
  const stored = meta['ttl'];
  if (!stored || stored.NULL !== undefined || horizonKind.read(stored) === undefined) return {};
  return { ttlUnixSeconds: read(meta, 'ttl', horizonKind) };
}
