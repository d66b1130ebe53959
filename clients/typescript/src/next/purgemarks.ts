import type { Backend } from '../isr/backend.js';
import type { PurgeState } from '../isr/entry.js';
import { mergePurgeStates, NEVER_PURGED } from '../isr/freshness.js';
import { LOG_LIFE_MS, logKey, readLog, readSequence } from '../isr/log.js';
import { type Mark, markOf, purgeStateOfMark, readMarks } from '../isr/purgemark.js';
import { malformed, type Row, text } from '../isr/row.js';

/** How often SEQ is read in addition to the log, in milliseconds, to detect trimmed rows or a replaced table. */
const auditEveryMs = 60_000;

/**
 * The purge marks of a tenant's tags in memory; there are few. All are read once, then the
 * log is followed with one strongly consistent query per poll, which is mostly empty:
 *
 *	SEQ ──► cursor, then all MARKs        LOG after the cursor ──► marks, cursor
 *	 ▲                                       │ a gap, a malformed row, or
 *	 └───────────────────────────────────────┘ too long since the last poll: reload all
 */
export class PurgeMarks {
  readonly #backend: Backend;
  readonly #tenant: string;
  #marks = new Map<string, Mark>();
  #markLifetimeSeconds = 0;
  /** The marks include every purge up to this sequence; undefined before the first load. */
  #cursor: number | undefined;
  /** When the last successful poll began, on both clocks; below, when SEQ was last read. */
  #polled = { elapsed: 0, now: 0 };
  #audited = 0;
  #current: Promise<number> | undefined;
  #next: Promise<number> | undefined;

  constructor(b: Backend, tenant: string) {
    this.#backend = b;
    this.#tenant = tenant;
  }

  /** The sequence up to which marks are known; 0 before the first load, so that every purge covers a render that starts then. */
  get cursor(): number {
    return this.#cursor ?? 0;
  }

  /**
   * Reads all purges that were acknowledged before the call, and returns their highest
   * sequence. Concurrent calls share a poll (single flight), but never one that was already in
   * progress, which may have read too early.
   */
  catchUp(): Promise<number> {
    this.#next ??= this.#afterCurrent();
    return this.#next;
  }

  async #afterCurrent(): Promise<number> {
    await this.#current?.catch(() => undefined); // its own callers get the error
    this.#current = this.#poll();
    this.#next = undefined;
    return this.#current;
  }

  /** Merges the known purges of these tags, at a time in epoch milliseconds. */
  purgeStateOf(tags: Iterable<string>, nowMs: number): PurgeState {
    let cover: PurgeState = { ...NEVER_PURGED, markLifetimeSeconds: this.#markLifetimeSeconds };
    for (const tag of tags) {
      const mark = this.#marks.get(tag);
      if (mark) cover = mergePurgeStates(cover, purgeStateOfMark(mark, nowMs));
    }
    return cover;
  }

  async #poll(): Promise<number> {
    const { clock } = this.#backend;
    const began = { elapsed: clock.elapsed(), now: clock.now() };
    // On some systems the monotonic clock stops while a process is frozen; the wall clock may be set back.
    const away = Math.max(began.elapsed - this.#polled.elapsed, began.now - this.#polled.now);
    if (this.#cursor === undefined || away > LOG_LIFE_MS / 2) await this.#reload();
    else await this.#follow(this.#cursor);
    this.#polled = began;
    return this.cursor;
  }

  /** Reloads all marks. SEQ is read first: a concurrent purge has a higher sequence and is read from the log later. */
  async #reload(): Promise<void> {
    const startedAt = this.#backend.clock.elapsed();
    const { seq, markLifetimeSeconds } = await readSequence(this.#backend, undefined);
    const marks = await readMarks(this.#backend, this.#tenant);
    this.#marks = new Map(marks.map((mark) => [mark.value, mark]));
    this.#markLifetimeSeconds = markLifetimeSeconds;
    this.#cursor = seq;
    this.#audited = startedAt;
  }

  async #follow(cursor: number): Promise<void> {
    let at = cursor;
    for (;;) {
      const rows = await readLog(this.#backend, undefined, at);
      for (const row of rows) {
        if (text(row, 'sk') !== logKey(at + 1)) return this.#recover(at);
        const marks = this.#read(row, at + 1);
        if (!marks) return this.#recover(at);
        for (const mark of marks) this.#marks.set(mark.value, mark);
        this.#cursor = ++at;
      }
      if (rows.length === 0) break; // a page may end early
    }
    await this.#audit(at);
  }

  /** Handles a gap or a malformed row in the log: if SEQ has moved on, changes were missed, so reload. */
  async #recover(at: number): Promise<void> {
    const { seq } = await readSequence(this.#backend, undefined);
    if (seq !== at) await this.#reload();
  }

  /** Reads SEQ once per interval. It may be ahead of the log read, but never behind. */
  async #audit(at: number): Promise<void> {
    const now = this.#backend.clock.elapsed();
    if (now - this.#audited < auditEveryMs) return;
    const { seq, markLifetimeSeconds } = await readSequence(this.#backend, undefined);
    this.#audited = now;
    this.#markLifetimeSeconds = markLifetimeSeconds;
    if (seq < at) return this.#reload();
    // If SEQ is ahead, its log rows exist: they are written in the same transaction.
    if (seq > at && (await readLog(this.#backend, undefined, at)).length === 0) await this.#reload();
  }

  /** Parses the marks of a log row; undefined if it is malformed. */
  #read(row: Row, seq: number): Mark[] | undefined {
    const targets = row['targets']?.L;
    try {
      if (!targets) throw malformed(row, 'targets', 'a list of maps');
      return targets
        .map(({ M: target = {} }) => target)
        .filter((target) => text(target, 'kind') === 'tag' && text(target, 'tenant') === this.#tenant)
        .map((target) => ({ ...markOf(target), seq }));
    } catch (failure) {
      this.#backend.warn('malformed row in the purge log', { seq, failure });
      return undefined;
    }
  }
}
