import { ConditionFailedError, LeaseLostError, MovedError } from '../errors.js';
import { outcomeOf } from '../outcome.js';
import { drop } from './acquire.js';
import { finishedRow, isMine } from './attempt.js';
import { type Backend, failureOf, insistOnRow } from './backend.js';
import type { Entry } from './entry.js';
import { conditionOf, updateOf } from './expression.js';
import { versionOf } from './fence.js';
import type { HeldLease } from './lease.js';
import { describeHolder, isHeld } from './lockrow.js';
import { SK } from './names.js';
import { child, type Row, text } from './row.js';
import { type Change, carryOut, type Verdict } from './settle.js';
import type { Swap } from './swap.js';
import { type Action, onRow, type Refusal, WriteRequest } from './transaction.js';

/**
 * Makes an entry current and gives up the lease, in one transaction: it updates META,
 * if it is exactly what was read, and deletes LOCK, if the lease is ours and has not
 * expired; with history it also makes the generation's version row, and lets that of
 * the generation before expire; for a lease with a request it completes that.
 *
 * A request without an answer is repeated unchanged, under the same client token, until
 * the lease ends or the signal is aborted. If there is no answer even then, LOCK is
 * deleted, after which the transaction can no longer land, and then the rows tell.
 * @throws LeaseLostError MovedError UnknownOutcomeError
 */
export async function publish(lease: HeldLease, swap: Swap, signal: AbortSignal | undefined): Promise<Entry> {
  if (lease.ended) throw new LeaseLostError(`the lease of ${lease.pk} is lost: it was given up`);
  try {
    await lease.leave(() => carryOut(lease.backend, signal, new Publication(lease, swap)));
  } catch (error) {
    if (error instanceof LeaseLostError) lease.end();
    throw error;
  }
  lease.giveUp();
  lease.endRequest();
  return swap.next;
}

/** One publish. */
class Publication implements Change {
  readonly name: string;
  readonly #lease: HeldLease;
  readonly #swap: Swap;
  readonly #backend: Backend;

  constructor(lease: HeldLease, swap: Swap) {
    this.name = `publish of the generation ${swap.next.generationId} of ${lease.pk}`;
    this.#lease = lease;
    this.#swap = swap;
    this.#backend = lease.backend;
  }

  /**
   * A request with a client token and a moment of its own. The deletion gives up the
   * lease and is the proof that it was held: DynamoDB allows one operation per item,
   * so that there is no separate check.
   */
  request(): WriteRequest {
    const { pk, leaseToken } = this.#lease;
    const held = conditionOf(isHeld(leaseToken, this.#backend.clock.now()));
    return new WriteRequest(this.#backend, [
      this.#swap.moveMeta(),
      { purpose: 'lock', item: { Delete: { ...onRow(this.#backend, pk, SK.lock), ...held } } },
      ...this.#swap.keepVersion(),
      ...this.#swap.retireVersion(),
      ...this.#completeRequest(),
    ]);
  }

  /** Records the generation as the result of the request that the lease was acquired for, if it is still to be ended. */
  #completeRequest(): Action[] {
    const { attempt, pk } = this.#lease;
    if (!attempt) return [];
    const completed = updateOf(finishedRow({ result: this.#swap.next }), isMine(attempt));
    return [{ purpose: 'request', item: { Update: { ...onRow(this.#backend, pk, attempt.sk), ...completed } } }];
  }

  running(): boolean {
    return this.#lease.running();
  }

  /**
   * Names the conditions that were false. The rows that come back with them settle the
   * common case of a lost reply at no cost: META is what this publication made it.
   */
  async judge(why: Refusal): Promise<Verdict> {
    const { pk } = this.#lease;
    if (why.has('meta') && this.#isOurs(why.get('meta'))) return { again: false };
    if (why.has('lock')) {
      const moved = why.has('meta') ? ', and the entry was changed by another writer' : '';
      return lost(`the lease of ${pk} is lost: ${describeHolder(why.get('lock'))}${moved}; read the page again`);
    }
    if (why.has('meta'))
      return { again: false, error: new MovedError(`the entry of ${pk} was changed by another writer: read it again`) };
    // Whoever took the request over has taken the lease as well, or will: what was
    // rendered for it is not to be published.
    if (why.has('request')) return lost(`the lease of ${pk} is lost: its request was taken over, or is ended`);
    if (why.has('version')) return { again: false, error: this.#used() };
    // Only the superseded version was not there any more.
    this.#swap.forget();
    return { again: true };
  }

  #used(): ConditionFailedError {
    const { generationId } = this.#swap.next;
    return new ConditionFailedError(
      `there is a version ${generationId} of ${this.#lease.pk} already: the id of a generation is used once`,
    );
  }

  #isOurs(meta: Row | undefined): boolean {
    return text(child(meta, 'isr'), 'generation_id') === this.#swap.next.generationId;
  }

  /**
   * Deletes LOCK, if it carries our token, until that is answered. From then on no
   * request of ours can land: each demands the token. If we crash before that, the
   * lease expires.
   */
  async preclude(cause: unknown, signal: AbortSignal): Promise<unknown> {
    const { gone } = await drop(this.#lease, signal);
    this.#lease.end();
    if (!gone) return cause; // it was given back
    return new LeaseLostError(`the lease of ${this.#lease.pk} is lost: ${String(cause)}`, { cause });
  }

  /** Looks for our generation on META. */
  async landed(sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean> {
    const { pk } = this.#lease;
    const meta = await insistOnRow(this.#backend, signal, pk, SK.meta);
    if (this.#isOurs(meta)) return true;
    const v = versionOf(meta);
    if (!meta || (v !== undefined && v <= this.#swap.version)) return false; // unchanged, or another took our number
    const { currentSk } = this.#swap;
    // The version row is ours, and written with META.
    if (currentSk !== '' && (await insistOnRow(this.#backend, signal, pk, currentSk))) return true;
    return this.#remembered(sent, signal);
  }

  /**
   * Somebody wrote META since: after us, or instead of us. DynamoDB remembers what it
   * did under our client tokens, and repeating a request cannot do harm now: it is
   * answered from memory, or fails its conditions.
   */
  async #remembered(sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean> {
    for (const request of sent) {
      const error = await failureOf(this.#backend.calls.insist(signal, request.send));
      const outcome = outcomeOf(error);
      if (outcome === 'applied') return true;
      if (outcome !== 'condition failed') throw error;
    }
    return false;
  }
}

function lost(message: string): Verdict {
  return { again: false, error: new LeaseLostError(message) };
}
