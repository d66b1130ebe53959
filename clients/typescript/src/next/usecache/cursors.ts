/** How many positions are remembered. */
const maxPositions = 1000;

/**
 * Which purges a process knew at which time. The result of a function is as of its call, which
 * Next.js reports as a time of this process: a purge that the process did not know then covers
 * the result.
 */
export class Cursors {
  readonly #positions: { at: number; seq: number }[] = [];

  /** Notes that purges up to `seq` are known now, at a time of `performanceTime`. */
  note(at: number, seq: number): void {
    if (seq <= (this.#positions.at(-1)?.seq ?? 0)) return;
    this.#positions.push({ at, seq });
    if (this.#positions.length > maxPositions) this.#positions.shift();
  }

  /** Returns the sequence that was known at a time; 0 if that is not known, so that every purge covers the result. */
  at(time: number): number {
    let seq = 0;
    for (const position of this.#positions) if (position.at <= time) seq = position.seq;
    return seq;
  }
}
