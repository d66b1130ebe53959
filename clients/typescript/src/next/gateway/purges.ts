import { UnknownOutcomeError } from '../../errors.js';
import type { Warn } from '../../isr/backend.js';
import { deploymentTag } from './tags.js';
import { maxTargets, type PurgeMode, type Transport } from './transport.js';

/** A tag to purge. `first` and `last` are the numbers of the calls that wait for it. */
interface Pending {
  mode: PurgeMode;
  first: number;
  last: number;
}

/** How many tags are kept while nothing can be purged: then one for all pages takes their place. */
const maxPending = 10_000;

/** The timeout of one attempt, and the shortest and the longest pause between two, in milliseconds. */
const attemptMs = 10_000;
const minPauseMs = 100;
const maxPauseMs = 30_000;

/**
 * The purges that are owed to the servers of `isr serve`. They are sent in order, what has come
 * together in one step, and again until the server confirms them.
 */
export class Purges {
  readonly #transport: Transport;
  readonly #warn: Warn;
  readonly #pending = new Map<string, Pending>();
  #calls = 0;
  #isRunning = false;
  #failure: unknown;
  /** Ends the pause between two attempts. */
  #wake: () => void = () => undefined;
  /** The calls that wait, by their numbers. */
  readonly #waiting = new Map<number, () => void>();

  constructor(transport: Transport, warn: Warn) {
    this.#transport = transport;
    this.#warn = warn;
  }

  /**
   * Purges tags. Resolves when the server has confirmed it.
   * @throws UnknownOutcomeError if that takes longer than `waitMs`: the purge is kept, and sent again
   */
  async purge(tags: readonly string[], mode: PurgeMode, waitMs: number): Promise<void> {
    if (tags.length === 0) return;
    const call = ++this.#calls;
    for (const tag of tags) this.#add(tag, mode, call);
    if (!this.#isRunning) void this.#run();
    else this.#wake();
    if (await this.#confirmed(call, waitMs)) return;
    throw new UnknownOutcomeError(
      `${this.#transport.name} has not confirmed the purge of ${named(tags)} within ${waitMs} ms; visitors may get older pages until it has. It is kept, and sent again while this process runs. ${this.#transport.advice}`,
      { cause: this.#failure },
    );
  }

  #add(tag: string, mode: PurgeMode, call: number): void {
    if (this.#pending.size >= maxPending && !this.#pending.has(tag)) {
      this.#pending.clear();
      this.#pending.set(deploymentTag, { mode: 'hard', first: 1, last: call });
      this.#warn('too many purges wait for isr serve: all pages of the site will be purged', { limit: maxPending });
      return;
    }
    const known = this.#pending.get(tag);
    const strongest = known?.mode === 'hard' ? 'hard' : mode;
    this.#pending.set(tag, { mode: strongest, first: known?.first ?? call, last: call });
  }

  /** Reports whether all purges up to a call are confirmed, once they are or the time is over. */
  #confirmed(call: number, waitMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => settle(false), waitMs);
      const settle = (confirmed: boolean) => {
        clearTimeout(timer);
        this.#waiting.delete(call);
        resolve(confirmed);
      };
      this.#waiting.set(call, () => settle(true));
    });
  }

  /** Sends what is pending until nothing is. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    await new Promise((resolve) => setImmediate(resolve)); // revalidations of one request share a purge
    for (let failures = 0; this.#pending.size > 0; ) {
      const sent = this.#next();
      try {
        const [[, { mode }] = ['', { mode: 'hard' as const }]] = sent;
        const tags = sent.map(([tag]) => tag);
        await this.#transport.purge(tags, mode, AbortSignal.timeout(attemptMs));
        failures = 0;
        this.#settle(sent);
      } catch (failure) {
        this.#failure = failure;
        this.#warn('isr serve was not purged, and is asked again', { failure, pending: this.#pending.size });
        await this.#pause(Math.min(minPauseMs * 2 ** failures++, maxPauseMs));
      }
    }
    this.#isRunning = false;
  }

  /** Returns the tags of the next step, all of the mode of the oldest. */
  #next(): [string, Pending][] {
    const [oldest] = this.#pending.values();
    const same = [...this.#pending].filter(([, { mode }]) => mode === oldest?.mode);
    return same.slice(0, maxTargets).map(([tag, pending]) => [tag, { ...pending }]);
  }

  /** Removes what was confirmed, unless a later call wants it once more. */
  #settle(sent: readonly [string, Pending][]): void {
    for (const [tag, { last, mode }] of sent) {
      const now = this.#pending.get(tag);
      if (now && now.last === last && now.mode === mode) this.#pending.delete(tag);
      else if (now) now.first = last + 1;
    }
    const oldest = Math.min(...[...this.#pending.values()].map(({ first }) => first), Number.POSITIVE_INFINITY);
    for (const [call, confirm] of this.#waiting) if (call < oldest) confirm();
  }

  /** Waits, without keeping a process alive that serves nothing any more. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms * (0.5 + Math.random() / 2)).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Formats tags for a message: the first five by name. */
function named(tags: readonly string[]): string {
  const some = tags.slice(0, 5).join(', ');
  return tags.length > 5 ? `${some} and ${tags.length - 5} more` : some;
}
