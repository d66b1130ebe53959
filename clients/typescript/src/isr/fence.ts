import { floorDecimal } from '../decimal.js';
import { andAll, type Condition, notExists } from './expression.js';
import { child, type Row } from './row.js';

/**
 * The part of a page's rows that a read remembers, so that a publish replaces exactly that
 * META row, and breakLease deletes exactly that LOCK row. It keeps the attributes as they
 * were stored, including malformed ones, which can still be compared.
 */
export class Fence {
  readonly pk: string;
  /**
   * The attributes of META that {@link unchanged} compares; undefined if there was no row.
   * @internal
   */
  readonly meta: Row | undefined;
  /**
   * The attributes of LOCK that {@link sameLock} compares; undefined if there was no row.
   * @internal
   */
  readonly lock: Row | undefined;

  /** @internal */
  constructor(pk: string, meta: Row | undefined, lock: Row | undefined) {
    this.pk = pk;
    this.meta = pick(meta, 's3_key', 'generated_at', 'current_sk', 'isr');
    this.lock = pick(lock, 'lease_token', 'lease_expires_at');
    // Records may stay in memory for long, so keep only the version of the map.
    const v = child(this.meta, 'isr')?.['v'];
    if (this.meta && v) this.meta['isr'] = { M: { v } };
  }

  /**
   * The condition that META is unchanged since the read. isr.v grows with each of our
   * writes. The other attributes are compared because services that know only the reference
   * schema do not increment it: writing content changes s3_key or generated_at, swapping
   * pointers changes current_sk.
   * @internal
   */
  unchanged(): Condition {
    if (!this.meta) return notExists;
    const v = child(this.meta, 'isr')?.['v'];
    return sameAs({
      s3_key: [':old_s3_key', this.meta['s3_key']],
      generated_at: [':old_generated_at', this.meta['generated_at']],
      current_sk: [':old_current_sk', this.meta['current_sk']],
      // Without a version, a missing or foreign map is compared as a whole.
      ...(v ? { 'isr.v': [':old_v', v] } : { isr: [':old_isr', this.meta['isr']] }),
    });
  }

  /**
   * The condition that LOCK is still the same lease. A refresh does not change the token;
   * a lease without a token is compared by its end.
   * @internal
   */
  sameLock(): Condition {
    const token = this.lock?.['lease_token'];
    if (token) return sameAs({ lease_token: [':old_token', token] });
    return sameAs({
      lease_token: [':old_token', undefined],
      lease_expires_at: [':old_expires_at', this.lock?.['lease_expires_at']],
    });
  }

  /**
   * The version to publish: the fence's plus one. Without a version it is the current time
   * in milliseconds, which no earlier row of this page can have had, so that no version is
   * reused even after META was garbage collected.
   */
  nextVersion(nowMs: number): bigint {
    const v = versionOf(this.meta);
    return v === undefined ? BigInt(Math.max(Math.floor(nowMs), 1)) : v + 1n;
  }
}

/** Returns the version of a META row, undefined if it has none. */
export function versionOf(meta: Row | undefined): bigint | undefined {
  const digits = child(meta, 'isr')?.['v']?.N;
  const v = digits === undefined ? undefined : floorDecimal(digits);
  return v !== undefined && v >= 0n && v < (1n << 62n) - 1n ? v : undefined;
}

type Expected = Record<string, [placeholder: string, found: Row[string] | undefined]>;

/**
 * The condition that attributes, given by their paths, equal the values that were read;
 * undefined means absent.
 */
export function sameAs(expected: Expected, names: Record<string, string> = {}): Condition {
  const terms = Object.entries(expected).map(([path, [placeholder, found]]): Condition => {
    if (found === undefined) return { expression: `attribute_not_exists(${path})` };
    return { expression: `${path} = ${placeholder}`, values: { [placeholder]: found } };
  });
  // On a deleted row each attribute_not_exists alone would be true.
  return { ...andAll([{ expression: 'attribute_exists(pk)' }, ...terms]), names };
}

function pick(row: Row | undefined, ...names: string[]): Row | undefined {
  if (!row) return undefined;
  return Object.fromEntries(names.flatMap((name) => (row[name] ? [[name, row[name]]] : [])));
}
