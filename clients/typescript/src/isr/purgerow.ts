import type { Cover, Sequence } from './entry.js';
import { countKind, demand, instantKind, periodKind, type Row, read } from './row.js';

/**
 * A PURGE row.
 * @throws MalformedRowError and never an absence: it stands for a purge, and no purge may be lost.
 */
export function coverOf(row: Row): Cover {
  demand(row, 'seq', countKind);
  demand(row, 'at', instantKind);
  return {
    seq: read(row, 'seq', countKind),
    hardSeq: read(row, 'hard_seq', countKind),
    atMs: read(row, 'at', instantKind) * 1000,
    markLifetimeSeconds: 0,
  };
}

/**
 * The SEQ row.
 * @throws MalformedRowError and never zero: everything rendered from there on would look older than every purge, or newer.
 */
export function sequenceOf(row: Row): Sequence {
  demand(row, 'seq', countKind);
  return { seq: read(row, 'seq', countKind), markLifetimeSeconds: read(row, 'mark_lifetime', periodKind) };
}
