import type { Backend } from '../isr/backend.js';
import type { Mark, PurgeState } from '../isr/entry.js';
import { mergePurgeStates, NEVER_PURGED } from '../isr/freshness.js';
import { LOG_LIFE_MS, readChanges, readRecent, readSequence } from '../isr/log.js';
import { markKey, mergeMarks, purgeStateOfMark, readMarksOf } from '../isr/mark.js';
import { covers } from '../isr/purgetarget.js';

/** How often SEQ is read in addition to the log, in milliseconds, to detect trimmed rows or a replaced table. */
const auditEveryMs = 60_000;

/**
 * The purge marks of a tenant, and of the whole site, in memory; there are few. All are read
 * once, then the log is followed with one strongly consistent query per poll, which is mostly empty:
 *
 *	SEQ ──► cursor, then all MARKs        LOG after the cursor ──► marks, cursor
 *	 ▲                                       │ a gap, a malformed row, or
 *	 └───────────────────────────────────────┘ too long since the last poll: reload all
 */
export class PurgeMarks {
  readonly #backend: Backend;
  readonly #tenant: string;
  readonly #onChange: (cacheKey: string | undefined) => void;
  /** The marks of tags, by tag. */
  #ofTags = new Map<string, Mark>();
  /** The marks of prefixes, by length and prefix: `isr` writes one for each URL that it purges. */
  #ofPrefixes = new Map<number, Map<string, Mark>>();
  /** The marks of other kinds, by sort key: each may cover any page. */
  #others = new Map<string, Mark>();
  #markLifetimeSeconds = 0;
  /** The marks include every purge up to this sequence; undefined before the first load. */
  #cursor: number | undefined;
  /** When the last successful poll began, on both clocks; below, when SEQ was last read. */
  #polled = { elapsed: 0, now: 0 };
  #audited = 0;
  #current: Promise<number> | undefined;
  #next: Promise<number> | undefined;

  /**
   * `onChange` is called for each page whose rows the log reports as changed, and without one if
   * changes may have been missed, before {@link catchUp} resolves.
   */
  constructor(b: Backend, tenant: string, onChange: (cacheKey: string | undefined) => void = () => undefined) {
    this.#backend = b;
    this.#tenant = tenant;
    this.#onChange = onChange;
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

  /** Merges the known marks that cover a page with these tags, or with any tag, at a time in epoch milliseconds. */
  purgeStateOf(cacheKey: string, tags: readonly string[] | 'any', nowMs: number): PurgeState {
    const page = { tenant: this.#tenant, key: cacheKey };
    const others = [...this.#others.values()].filter((mark) => covers(mark, page, []));
    const ofTags = tags === 'any' ? [...this.#ofTags.values()] : tags.map((tag) => this.#ofTags.get(tag));
    const ofPrefixes = Array.from(this.#ofPrefixes, ([length, marks]) => marks.get(cacheKey.slice(0, length)));
    const unpurged: PurgeState = { ...NEVER_PURGED, markLifetimeSeconds: this.#markLifetimeSeconds };
    return [...others, ...ofTags, ...ofPrefixes]
      .filter((mark) => mark !== undefined)
      .map((mark) => purgeStateOfMark(mark, nowMs))
      .reduce(mergePurgeStates, unpurged);
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

  /**
   * Reloads all marks. SEQ is read first: a concurrent purge has a higher sequence and is read from
   * the log later, or is being committed, and then among the newest rows of the log.
   */
  async #reload(): Promise<void> {
    const startedAt = this.#backend.clock.elapsed();
    const { seq, markLifetimeSeconds } = await readSequence(this.#backend, undefined);
    const recent = await readRecent(this.#backend, undefined, seq);
    const marks = await readMarksOf(this.#backend, this.#tenant);
    this.#ofTags = new Map();
    this.#ofPrefixes = new Map();
    this.#others = new Map();
    for (const mark of marks) this.#add(mark);
    for (const { marks: logged } of recent.reverse()) for (const mark of logged) this.#add(mark);
    this.#markLifetimeSeconds = markLifetimeSeconds;
    this.#cursor = seq;
    this.#audited = startedAt;
    this.#onChange(undefined);
  }

  async #follow(cursor: number): Promise<void> {
    let at = cursor;
    for (;;) {
      const changes = await readChanges(this.#backend, undefined, at);
      for (const { seq, marks, reload, malformed } of changes) {
        if (malformed) this.#backend.warn('malformed row in the purge log', { seq: at + 1, failure: malformed });
        if (malformed || seq !== at + 1) return this.#recover(at);
        for (const mark of marks) this.#add(mark);
        for (const { tenant, key } of reload) if (tenant === this.#tenant) this.#onChange(key);
        this.#cursor = ++at;
      }
      if (changes.length === 0) break; // a page may end early
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
    if (seq > at && (await readChanges(this.#backend, undefined, at)).length === 0) await this.#reload();
  }

  /** Merges a mark into those that are known, unless it covers only pages of other tenants. */
  #add(mark: Mark): void {
    const { kind, tenant, value } = mark;
    if (tenant !== this.#tenant && kind !== 'site') return;
    const [marks, key] = this.#placeOf(kind, value) ?? [this.#others, markKey(mark)];
    marks.set(key, mergeMarks(marks.get(key), mark));
  }

  /** Returns the map of the marks of tags, or of prefixes of this length, and the key in it. */
  #placeOf(kind: string, value: string): [Map<string, Mark>, key: string] | undefined {
    if (kind === 'tag') return [this.#ofTags, value];
    if (kind !== 'prefix') return undefined;
    const marks = this.#ofPrefixes.get(value.length) ?? new Map<string, Mark>();
    this.#ofPrefixes.set(value.length, marks);
    return [marks, value];
  }
}
