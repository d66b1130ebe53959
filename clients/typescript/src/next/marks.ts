import type { Backend } from '../isr/backend.js';
import type { Cover } from '../isr/entry.js';
import { mergeCovers, NO_COVER } from '../isr/freshness.js';
import { LOG_LIFE_MS, logKey, readLog, readSequence } from '../isr/log.js';
import { coverBy, type Mark, markOf, readMarks } from '../isr/mark.js';
import { malformed, type Row, text } from '../isr/row.js';

/** How often SEQ is read beside the log, in milliseconds: it shows that rows were trimmed, or the table replaced. */
const auditEveryMs = 60_000;

/**
 * The marks of a tenant's tags, in memory: they are few. They are all read once, and
 * then the log is followed, one strong query of mostly nothing whenever somebody has
 * to know what was said until now:
 *
 *	SEQ ──► cursor, then all MARKs        LOG after the cursor ──► marks, cursor
 *	 ▲                                       │ a gap, a row that cannot be read,
 *	 └───────────────────────────────────────┘ too long away: all is read anew
 */
export class Marks {
  readonly #backend: Backend;
  readonly #tenant: string;
  #marks = new Map<string, Mark>();
  #markLifetimeSeconds = 0;
  /** Everything up to this sequence is known; undefined: nothing is. */
  #cursor: number | undefined;
  /** When the latest poll that succeeded began, and SEQ was read, on both clocks. */
  #polled = { elapsed: 0, now: 0 };
  #audited = 0;
  #current: Promise<number> | undefined;
  #next: Promise<number> | undefined;

  constructor(b: Backend, tenant: string) {
    this.#backend = b;
    this.#tenant = tenant;
  }

  /** The sequence up to which marks are known; 0 if none are, so that everything that was ever said covers it. */
  get cursor(): number {
    return this.#cursor ?? 0;
  }

  /**
   * Learns of everything that was acknowledged before the call, and returns the
   * sequence up to which that is. Calls at the same time share a poll, but never one
   * that was under way before: it may have looked too early.
   */
  catchUp(): Promise<number> {
    this.#next ??= this.#afterCurrent();
    return this.#next;
  }

  async #afterCurrent(): Promise<number> {
    await this.#current?.catch(() => undefined); // its own callers hear of it
    this.#current = this.#poll();
    this.#next = undefined;
    return this.#current;
  }

  /** The purges that cover what carries these tags, at a moment in epoch milliseconds, as far as they are known. */
  coverOf(tags: Iterable<string>, nowMs: number): Cover {
    let cover: Cover = { ...NO_COVER, markLifetimeSeconds: this.#markLifetimeSeconds };
    for (const tag of tags) {
      const mark = this.#marks.get(tag);
      if (mark) cover = mergeCovers(cover, coverBy(mark, nowMs));
    }
    return cover;
  }

  async #poll(): Promise<number> {
    const { clock } = this.#backend;
    const began = { elapsed: clock.elapsed(), now: clock.now() };
    // A frozen process stops the one clock on some systems, and somebody may set the other back.
    const away = Math.max(began.elapsed - this.#polled.elapsed, began.now - this.#polled.now);
    if (this.#cursor === undefined || away > LOG_LIFE_MS / 2) await this.#reload();
    else await this.#follow(this.#cursor);
    this.#polled = began;
    return this.cursor;
  }

  /** SEQ first: what is said meanwhile has a higher sequence, and is read again from the log. */
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
        if (text(row, 'sk') !== logKey(at + 1)) return this.#offTrack(at);
        const marks = this.#read(row, at + 1);
        if (!marks) return this.#offTrack(at);
        for (const mark of marks) this.#marks.set(mark.value, mark);
        this.#cursor = ++at;
      }
      if (rows.length === 0) break; // a page may end early
    }
    await this.#audit(at);
  }

  /** A row that is not the next of the log, or cannot be read: if SEQ has gone on, what happened is not known. */
  async #offTrack(at: number): Promise<void> {
    const { seq } = await readSequence(this.#backend, undefined);
    if (seq !== at) await this.#reload();
  }

  /** Reads SEQ now and then. It may have gone on since the log was read; it cannot be behind. */
  async #audit(at: number): Promise<void> {
    const now = this.#backend.clock.elapsed();
    if (now - this.#audited < auditEveryMs) return;
    const { seq, markLifetimeSeconds } = await readSequence(this.#backend, undefined);
    this.#audited = now;
    this.#markLifetimeSeconds = markLifetimeSeconds;
    if (seq < at) return this.#reload();
    // If it has gone on, its rows are there: they were written with it.
    if (seq > at && (await readLog(this.#backend, undefined, at)).length === 0) await this.#reload();
  }

  /** The marks that a row of the log brings; undefined: it cannot be read. */
  #read(row: Row, seq: number): Mark[] | undefined {
    const targets = row['targets']?.L;
    try {
      if (!targets) throw malformed(row, 'targets', 'a list of maps');
      return targets
        .map(({ M: target = {} }) => target)
        .filter((target) => text(target, 'kind') === 'tag' && text(target, 'tenant') === this.#tenant)
        .map((target) => ({ ...markOf(target), seq }));
    } catch (failure) {
      this.#backend.warn('a row of the purge log cannot be read', { seq, failure });
      return undefined;
    }
  }
}
