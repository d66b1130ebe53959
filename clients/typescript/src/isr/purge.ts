import { InvalidInputError } from '../errors.js';
import type { Settings } from './config.js';
import type { LogChange } from './groupcommit.js';
import { checkInterval } from './normalize.js';
import { MAX_PURGE_TARGETS, maxPurgeBytes, type PurgeTarget, resolveTarget } from './purgetarget.js';
import { merged, type PurgeMode, RowPurge } from './purgewrite.js';

/** Options of a purge. */
export interface PurgeOptions {
  /** The pages are never served again. Default: they are stale, served within their stale windows while they are regenerated. */
  hard?: boolean;
  /** The pages are stale, but never served again after so many seconds. Not for targets of kind `key`. */
  expireSeconds?: number;
  /** Asks every `isr serve` to report when it has applied the purge. */
  confirm?: boolean;
  /** Cancels a purge that has not been sent yet. */
  signal?: AbortSignal | undefined;
}

/** The proof of a committed purge. */
export interface Receipt {
  /** The sequence of the purge: a generation with at least this `purgeSeq` was rendered after it. */
  seq: number;
}

/** The log change of a purge. */
export class Purge implements LogChange {
  readonly name: string;
  readonly writes = [];
  readonly purges: readonly RowPurge[];
  readonly confirm: boolean;
  readonly markLifetimeSeconds: number;

  /** @throws InvalidInputError InvalidKeyError */
  constructor(of: Settings, targets: readonly PurgeTarget[], o: PurgeOptions) {
    if (!Array.isArray(targets) || targets.length < 1 || targets.length > MAX_PURGE_TARGETS) {
      const found = Array.isArray(targets) ? targets.length : typeof targets;
      throw new InvalidInputError(
        `the targets of a purge: expected 1 to ${MAX_PURGE_TARGETS} (got ${found}); split a longer list`,
      );
    }
    const mode = modeOf(o);
    const resolved = targets.map((target) => resolveTarget(target, of));
    const bytes = resolved.reduce((sum, { tenant, value }) => sum + Buffer.byteLength(tenant + value), 0);
    if (bytes > maxPurgeBytes) {
      throw new InvalidInputError(
        `the targets of a purge have ${bytes} bytes together: expected at most ${maxPurgeBytes}; split the list`,
      );
    }
    if (mode.expireSeconds !== undefined && resolved.some(({ kind }) => kind === 'key')) {
      throw new InvalidInputError(
        'a purge with expireSeconds has a target of kind key: expected tags, prefixes, tenants or the site',
      );
    }
    const [first] = resolved;
    this.name =
      `purge of ${targets.length} targets, the first is ${first?.kind} ${first?.value || first?.tenant}`.trim();
    this.purges = merged(resolved.map((target) => new RowPurge(mode, target)));
    this.confirm = o.confirm ?? false;
    this.markLifetimeSeconds = of.markLifetimeSeconds;
  }

  plan(): [] {
    return [];
  }

  /** Never called with a refusal: none of its actions has a condition. */
  refused(): undefined {
    return undefined;
  }
}

function modeOf({ hard = false, expireSeconds }: PurgeOptions): PurgeMode {
  if (expireSeconds === undefined) return { hard };
  checkInterval('expireSeconds', expireSeconds);
  if (hard) throw new InvalidInputError('hard and expireSeconds exclude each other: pass one of them');
  return { hard, expireSeconds };
}
