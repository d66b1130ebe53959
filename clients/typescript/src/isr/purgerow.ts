import type { PurgeState, Sequence } from './entry.js';
import { NEVER_PURGED } from './freshness.js';
import { countKind, instantKind, periodKind, type Row, read, requirePresent } from './row.js';

/**
 * Parses a PURGE row.
 * @throws MalformedRowError A malformed row never counts as absent: no purge may be lost.
 */
export function purgeStateOf(row: Row): PurgeState {
  requirePresent(row, 'seq', countKind);
  requirePresent(row, 'at', instantKind);
  return {
    ...NEVER_PURGED,
    seq: read(row, 'seq', countKind),
    hardSeq: read(row, 'hard_seq', countKind),
    atMs: read(row, 'at', instantKind) * 1000,
  };
}

/**
 * Parses the SEQ row.
 * @throws MalformedRowError A malformed row never counts as zero, which would compare wrongly with every purge.
 */
export function sequenceOf(row: Row): Sequence {
  requirePresent(row, 'seq', countKind);
  return { seq: read(row, 'seq', countKind), markLifetimeSeconds: read(row, 'mark_lifetime', periodKind) };
}
