import type { PurgeMarks } from '../cache/purgemarks.js';
import { UnknownOutcomeError } from '../errors.js';
import type { Entry, PurgeState } from '../isr/entry.js';
import { NEVER_PURGED } from '../isr/freshness.js';
import type { IsrMetaStore } from '../isr/metastore.js';
import type { PurgeOptions } from '../isr/purge.js';
import type { PurgeTarget } from '../isr/purgetarget.js';
import { outcomeOf } from '../outcome.js';
import { withTimeout } from '../retry.js';
import { isOfAnyTag } from './manytags.js';
import type { Settings } from './options.js';

/** The limit of the targets of all purges that wait to be sent again. */
const maxTargets = 10_000;

/** How long a purge may wait in the queue of the log, in milliseconds; once it is sent, the store's settle timeout applies. */
const maxQueueMs = 30_000;

/** How many purges that are in the table are remembered, at least, until the log has been read. */
const maxWritten = 1000;

/** How many times the timeout of a call a caller waits for a purge before it is kept. */
const callsPerPurge = 4;

/** The shortest pause before kept purges are sent again, in milliseconds. */
const minPauseMs = 100;

/** What a purge does: its mode, from {@link PurgeOptions}. */
export type PurgeHow = Pick<PurgeOptions, 'hard' | 'expireSeconds'>;

/** A purge that is not known to be in the table. */
interface Purge {
  readonly targets: readonly (PurgeTarget & { value: string })[];
  readonly how: PurgeHow;
  /** When it was asked for, in epoch milliseconds. */
  readonly atMs: number;
  /** Its sequence, once it is in the table. */
  seq?: number;
}

/**
 * The purges of a process. Each applies to what the process serves from when it is asked for, and to
 * other processes once it is in the table. If the table does not answer it is kept, in memory, and
 * sent again, in order, until it is in the table: Next.js shows an error of a revalidation to no
 * caller in a route handler, whose response it has sent before, and in a Server Action only after
 * the action has made its change.
 */
export class KeptPurges {
  readonly #store: IsrMetaStore;
  readonly #marks: PurgeMarks;
  readonly #settings: Settings;
  /** Those that apply here and may not be among the marks, in order. */
  #applied: Purge[] = [];
  /** Those to be sent again, in order. */
  readonly #kept: Purge[] = [];
  #isSending = false;

  constructor(store: IsrMetaStore, marks: PurgeMarks, settings: Settings) {
    this.#store = store;
    this.#marks = marks;
    this.#settings = settings;
  }

  /**
   * Purges. It resolves once the purge is in the table, or is kept.
   * @throws the table's refusal, or UnknownOutcomeError if too many are kept: the purge then does not apply
   */
  async purge(targets: Purge['targets'], how: PurgeHow): Promise<void> {
    const { clock, callMs } = this.#settings;
    const purge: Purge = { targets, how, atMs: clock.now() };
    this.#applied.push(purge);
    if (this.#kept.length > 0) {
      this.#keep(purge, 'earlier ones wait');
      return;
    }
    const sending = this.#send(purge);
    sending.catch(() => undefined); // it may fail after it is kept
    try {
      await withTimeout(callsPerPurge * callMs, undefined, () => sending);
      if (this.#applied.length - this.#kept.length > maxWritten) await this.#readLog();
    } catch (failure) {
      const outcome = outcomeOf(failure);
      if (outcome === 'unknown' || outcome === 'cancelled') {
        this.#keep(purge, failure);
        return;
      }
      this.#drop(purge);
      throw failure;
    }
  }

  /** Returns the state that the purges of this process give an entry in addition to the marks that are known. */
  cover(entry: Entry, cacheKey: string, tags: readonly string[], nowMs: number): PurgeState {
    if (this.#applied.length === 0) return NEVER_PURGED;
    this.#forget();
    const names = isOfAnyTag(entry) ? undefined : new Set(tags);
    const covering = this.#applied.filter(({ atMs, targets }) => {
      if (entry.generatedAtMs > atMs) return false;
      return targets.some(({ kind, value }) => (kind === 'key' ? value === cacheKey : (names?.has(value) ?? true)));
    });
    if (covering.length === 0) return NEVER_PURGED;
    // One purge more than the entry knows: the table will give it a later sequence.
    const seq = entry.purgeSeq + 1;
    const isHard = covering.some(({ how: { hard, expireSeconds }, atMs }) => {
      return hard || (expireSeconds !== undefined && nowMs >= atMs + expireSeconds * 1000);
    });
    const atMs = Math.max(...covering.map((purge) => purge.atMs));
    return { ...NEVER_PURGED, seq, hardSeq: isHard ? seq : 0, atMs };
  }

  async #send(purge: Purge): Promise<void> {
    const options = { ...purge.how, signal: AbortSignal.timeout(maxQueueMs) };
    const { seq } = await this.#store.purge(purge.targets, options);
    purge.seq = seq;
  }

  /** Reads the log, if the table answers: a process that looks up no pages does not read it otherwise. */
  async #readLog(): Promise<void> {
    await this.#marks.catchUp().catch(() => undefined); // the next purge tries again
    this.#forget();
  }

  /** Forgets the purges that are among the marks. */
  #forget(): void {
    const isKnown = ({ seq }: Purge) => seq !== undefined && seq <= this.#marks.cursor;
    if (this.#applied.some(isKnown)) this.#applied = this.#applied.filter((purge) => !isKnown(purge));
  }

  #drop(purge: Purge): void {
    this.#applied = this.#applied.filter((known) => known !== purge);
  }

  #keep(purge: Purge, failure: unknown): void {
    const { warn } = this.#settings;
    const count = this.#kept.reduce((sum, { targets }) => sum + targets.length, purge.targets.length);
    const first = purge.targets[0]?.value;
    if (count > maxTargets) {
      this.#drop(purge);
      throw new UnknownOutcomeError(
        `the revalidation of ${first}: the table does not answer, and ${maxTargets} revalidations wait to be sent again, as many as are kept; repeat it once the table answers`,
        { cause: failure },
      );
    }
    this.#kept.push(purge);
    warn(
      'the table does not answer: revalidations apply to this server, and are sent again until they are in the table',
      {
        first,
        kept: count,
        failure,
      },
    );
    if (!this.#isSending) void this.#sendKept();
  }

  /** Sends what is kept, in order, until nothing is left. */
  async #sendKept(): Promise<void> {
    const { clock, outageMs } = this.#settings;
    this.#isSending = true;
    for (let purge = this.#kept[0]; purge; purge = this.#kept[0]) {
      try {
        if (purge.seq === undefined) await this.#send(purge);
        this.#kept.shift();
      } catch (failure) {
        this.#settings.warn('revalidations still wait to be sent', { kept: this.#kept.length, failure });
        if (!(await clock.sleep(Math.max(outageMs, minPauseMs), undefined))) break;
      }
    }
    this.#isSending = false;
  }
}
