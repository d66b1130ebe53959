import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { type Backend, keyOf } from './backend.js';
import { updateOf } from './expression.js';
import { reloadTarget } from './log.js';
import { hardSeqOf, markKey, markOfRow, storedValueOf } from './mark.js';
import { BOUNDS, PURGE_LOG_PK, SK } from './names.js';
import type { ResolvedTarget } from './purgetarget.js';
import { N, type Row, S } from './row.js';
import { type Action, rowId } from './transaction.js';

/** The strength of a purge: see {@link PurgeOptions}. */
export interface PurgeMode {
  readonly hard: boolean;
  readonly expireSeconds?: number | undefined;
}

/** The values that all purges of a transaction share. */
export interface PurgeMoment {
  readonly seq: number;
  /** Epoch milliseconds. */
  readonly nowMs: number;
  /** The lifetime of purge marks, in seconds. */
  readonly markLifetimeSeconds: number;
}

/** An action, with its log targets. */
export interface PurgeWrite {
  action: Action;
  targets: readonly Row[];
}

/**
 * The purge of one row: of a mark, or of PURGE in the partition of a page. Its update needs no
 * condition, since every writer of these rows increments the sequence, and except for
 * `expireSeconds` no read: it leaves the attributes of other modes as they are.
 */
export class RowPurge {
  readonly sk: string;
  /** The {@link rowId} of the row. */
  readonly id: string;
  /** Whether the row must be read, since an expiry that has come would be overwritten. */
  readonly needsRow: boolean;
  /** The targets of the log: cache keys may share a partition, and so a row. */
  readonly #targets: readonly [ResolvedTarget, ...ResolvedTarget[]];
  readonly #pk: string;
  readonly #mode: PurgeMode;

  constructor(mode: PurgeMode, target: ResolvedTarget, ...others: readonly ResolvedTarget[]) {
    this.#targets = [target, ...others];
    this.#mode = mode;
    this.#pk = target.kind === 'key' ? target.pk : PURGE_LOG_PK;
    this.sk = target.kind === 'key' ? SK.purge : markKey(target);
    this.id = rowId(this.#pk, this.sk);
    this.needsRow = mode.expireSeconds !== undefined;
  }

  /** Returns both purges of the same row in one. */
  with(later: RowPurge): RowPurge {
    const mode = {
      hard: this.#mode.hard || later.#mode.hard,
      expireSeconds: leastOf(this.#mode.expireSeconds, later.#mode.expireSeconds),
    };
    const others = later.#targets.filter(({ value }) => this.#targets.every((known) => known.value !== value));
    return new RowPurge(mode, ...this.#targets, ...others);
  }

  /** Builds the update; `before` is the stored row, if it {@link needsRow}. @throws MalformedRowError */
  write(b: Backend, moment: PurgeMoment, before: Row | undefined): PurgeWrite {
    const { seq, nowMs, markLifetimeSeconds } = moment;
    const at = Math.floor(nowMs / 1000);
    const shared = { at: N(at), ...this.#strength(moment, before) };
    const [target] = this.#targets;
    const value = target.kind === 'key' ? {} : { value: S(storedValueOf(target)) };
    const set = { ...value, seq: N(seq), ...shared, ttl: N(at + markLifetimeSeconds + 1) };
    const Update = { TableName: b.tableName, Key: keyOf(this.#pk, this.sk), ...updateOf(set) };
    const targets = this.#targets.map((logged) => logTarget(logged, { ...value, ...shared }));
    return { action: { purpose: 'purge', item: { Update } }, targets };
  }

  #strength({ seq, nowMs }: PurgeMoment, before: Row | undefined): Record<string, AttributeValue> {
    const { hard, expireSeconds } = this.#mode;
    const known = before && markOfRow(before);
    const hardSeq = hard ? seq : known && hardSeqOf(known, nowMs);
    const hard_seq = hardSeq ? { hard_seq: N(hardSeq) } : {};
    if (expireSeconds === undefined) return hard_seq;
    const asked = Math.min(Math.floor(nowMs / 1000) + Math.ceil(expireSeconds), BOUNDS.moment);
    // An earlier expiry that has yet to come stays: a mark has one only, and this purge must not extend it.
    const isPending = known && known.expireSeq > (hardSeq ?? 0);
    const expireAt = isPending ? Math.min(asked, known.expireAtMs / 1000) : asked;
    return { ...hard_seq, expire_seq: N(seq), expire_at: N(expireAt) };
  }
}

function leastOf(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

/** Builds the log target of a purge: a page, which is read again with its PURGE row, or the mark itself. */
function logTarget({ kind, tenant, value }: ResolvedTarget, mark: Row): Row {
  if (kind === 'key') return reloadTarget({ tenant, key: value });
  return { kind: S(kind), ...(tenant ? { tenant: S(tenant) } : {}), ...mark };
}

/** Merges the purges of the same row. */
export function merged(purges: readonly RowPurge[]): RowPurge[] {
  const byRow = new Map<string, RowPurge>();
  for (const purge of purges) byRow.set(purge.id, byRow.get(purge.id)?.with(purge) ?? purge);
  return [...byRow.values()];
}
