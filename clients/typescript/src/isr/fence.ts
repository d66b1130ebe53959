import { andAll, type Condition, notExists } from './expression.js';
import { floorNumber } from './numbers.js';
import { child, type Row } from './row.js';

/**
 * What a read keeps of the rows of a page, so that a publish replaces exactly that
 * META row and no other, and breaking a lease that LOCK row. It holds the attributes
 * as they were found, malformed ones too: what cannot be read can still be recognised.
 */
export class Fence {
  readonly pk: string;
  /** Of META, what {@link unmoved} compares; undefined: there was no row. */
  readonly meta: Row | undefined;
  /** Of LOCK, what {@link sameLock} compares; undefined: there was no row. */
  readonly lock: Row | undefined;

  constructor(pk: string, meta: Row | undefined, lock: Row | undefined) {
    this.pk = pk;
    this.meta = pick(meta, 's3_key', 'generated_at', 'current_sk', 'isr');
    this.lock = pick(lock, 'lease_token', 'lease_expires_at');
    // Records may be kept in memory for long: the map is reduced to its version.
    const v = child(this.meta, 'isr')?.['v'];
    if (this.meta && v) this.meta['isr'] = { M: { v } };
  }

  /**
   * True of a META row that is still what the fence was made of. isr.v grows with
   * every write of ours. The other attributes are compared because services that
   * know the reference schema alone do not raise it: one that writes content changes
   * s3_key or generated_at, one that swaps pointers changes current_sk.
   */
  unmoved(): Condition {
    if (!this.meta) return notExists;
    const v = child(this.meta, 'isr')?.['v'];
    return sameAs({
      s3_key: [':old_s3_key', this.meta['s3_key']],
      generated_at: [':old_generated_at', this.meta['generated_at']],
      current_sk: [':old_current_sk', this.meta['current_sk']],
      // None, or something that is none of ours, is compared as a whole.
      ...(v ? { 'isr.v': [':old_v', v] } : { isr: [':old_isr', this.meta['isr']] }),
    });
  }

  /**
   * True of a LOCK row that is still the lease which the fence was made of.
   * Refreshing does not make it another one, except where there is no token to tell
   * it by.
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
   * The version to publish: one more than the fence's, or, where it has none, the
   * milliseconds of now, which no row of this page can have had before, so that no
   * value ever returns, even after the row was collected.
   */
  nextVersion(nowMs: number): bigint {
    const v = versionOf(this.meta);
    return v === undefined ? BigInt(Math.max(Math.floor(nowMs), 1)) : v + 1n;
  }
}

/** The version of a META row, if it has one. */
export function versionOf(meta: Row | undefined): bigint | undefined {
  const digits = child(meta, 'isr')?.['v']?.N;
  const v = digits === undefined ? undefined : floorNumber(digits);
  return v !== undefined && v >= 0n && v < (1n << 62n) - 1n ? v : undefined;
}

type Demands = Record<string, [placeholder: string, found: Row[string] | undefined]>;

/**
 * Demands that attributes of a row, by their paths in an expression, are as they
 * were found, whatever they were; undefined: absent.
 */
export function sameAs(demands: Demands, names: Record<string, string> = {}): Condition {
  const terms = Object.entries(demands).map(([path, [placeholder, found]]): Condition => {
    if (found === undefined) return { expression: `attribute_not_exists(${path})` };
    return { expression: `${path} = ${placeholder}`, values: { [placeholder]: found } };
  });
  // If the row were deleted, attribute_not_exists would hold of every part.
  return { ...andAll([{ expression: 'attribute_exists(pk)' }, ...terms]), names };
}

function pick(row: Row | undefined, ...names: string[]): Row | undefined {
  if (!row) return undefined;
  return Object.fromEntries(names.flatMap((name) => (row[name] ? [[name, row[name]]] : [])));
}
