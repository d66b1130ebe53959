import { ConditionFailedError, LeaseLostError, MovedError } from '../errors.js';
import { outcomeOf } from '../outcome.js';
import { drop } from './acquire.js';
import { finishedRow, isMine } from './attempt.js';
import { type Backend, failureOf, insistOnRow, randomText } from './backend.js';
import type { Entry } from './entry.js';
import { conditionOf, updateOf } from './expression.js';
import { versionOf } from './fence.js';
import type { HeldLease } from './lease.js';
import { describeHolder, isHeld } from './lockrow.js';
import { advance, readSequence, reloadTarget, type Target } from './log.js';
import { SK } from './names.js';
import { child, type Row, text } from './row.js';
import { execute, type Verdict, type Write } from './settle.js';
import type { Swap } from './swap.js';
import { type Action, onRow, WriteRequest } from './transaction.js';

/**
 * Makes an entry current and gives up the lease, in one transaction: it updates META,
 * if it is exactly what was read, and deletes LOCK, if the lease is ours and has not
 * expired; with history it also makes the generation's version row, and lets that of
 * the generation before expire; for a lease with a request it completes that. `ends`
 * is the page if its pin ends with it: nodes that keep the pinned generation in memory
 * learn of that from the log, in the same transaction.
 *
 * A request without an answer is repeated unchanged, under the same client token, until
 * the lease ends or the signal is aborted. If there is no answer even then, LOCK is
 * deleted, after which the transaction can no longer be carried out, and then the rows tell.
 * @throws LeaseLostError MovedError UnknownOutcomeError
 */
export async function publish(
  lease: HeldLease,
  swap: Swap,
  ends: Target | undefined,
  signal: AbortSignal | undefined,
): Promise<Entry> {
  if (lease.ended) throw new LeaseLostError(`the lease of ${lease.pk} is lost: it was given up`);
  try {
    await lease.leave(() => execute(lease.backend, signal, new Publication(lease, swap, ends)));
  } catch (error) {
    if (error instanceof LeaseLostError) lease.end();
    throw error;
  }
  lease.giveUp();
  lease.endRequest();
  return swap.next;
}

/** One publish. */
class Publication implements Write {
  readonly name: string;
  readonly #lease: HeldLease;
  readonly #swap: Swap;
  /** The page, if its pin ends. */
  readonly #ends: Target | undefined;
  readonly #backend: Backend;

  constructor(lease: HeldLease, swap: Swap, ends: Target | undefined) {
    this.name = `publish of the generation ${swap.next.generationId} of ${lease.pk}`;
    this.#lease = lease;
    this.#swap = swap;
    this.#ends = ends;
    this.#backend = lease.backend;
  }

  /**
   * A request with a client token and a moment of its own. The deletion gives up the
   * lease and is the proof that it was held: DynamoDB allows one operation per item,
   * so that there is no separate check.
   */
  async request(signal: AbortSignal | undefined): Promise<WriteRequest> {
    const { pk, leaseToken } = this.#lease;
    const told = await this.#tell(signal);
    const held = conditionOf(isHeld(leaseToken, this.#backend.clock.now()));
    return new WriteRequest(this.#backend, [
      this.#swap.moveMeta(),
      { purpose: 'lock', item: { Delete: { ...onRow(this.#backend, pk, SK.lock), ...held } } },
      ...this.#swap.keepVersion(),
      ...this.#swap.retireVersion(),
      ...this.#completeRequest(),
      ...told,
    ]);
  }

  /** The end of a pin, for the log. It shares no batch with other changes, as it is bound to its lease. */
  async #tell(signal: AbortSignal | undefined): Promise<Action[]> {
    if (!this.#ends) return [];
    const seen = await readSequence(this.#backend, signal);
    return advance(this.#backend, seen, randomText(), [reloadTarget(this.#ends)]);
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
  async judge(request: WriteRequest, refused: unknown): Promise<Verdict> {
    const { pk } = this.#lease;
    const why = request.refusal(refused);
    if (why.has('meta') && this.#isOurs(why.get('meta'))) return { again: 'never' };
    if (why.has('lock')) {
      const moved = why.has('meta') ? ', and the entry was changed by another writer' : '';
      const holder = describeHolder(why.get('lock'));
      return error(new LeaseLostError(`the lease of ${pk} is lost: ${holder}${moved}; read the page again`));
    }
    if (why.has('meta'))
      return error(new MovedError(`the entry of ${pk} was changed by another writer: read it again`));
    // Whoever took the request over has taken the lease as well, or will: what was
    // rendered for it is not to be published.
    if (why.has('request')) {
      return error(new LeaseLostError(`the lease of ${pk} is lost: its request was taken over, or is ended`));
    }
    if (why.has('version')) return error(this.#used());
    if (why.has('superseded')) this.#swap.forget(); // it was not there any more
    // Another change of the log was faster: SEQ is read again after a pause.
    return { again: why.has('sequence') ? 'later' : 'now' };
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
   * request of ours can be carried out: each demands the token. If we crash before that, the
   * lease expires.
   */
  async revoke(cause: unknown, signal: AbortSignal): Promise<unknown> {
    const { gone } = await drop(this.#lease, signal);
    this.#lease.end();
    if (!gone) return cause; // it was given back
    return new LeaseLostError(`the lease of ${this.#lease.pk} is lost: ${String(cause)}`, { cause });
  }

  /** Looks for our generation on META. */
  async committed(sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean> {
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
      const error = await failureOf(this.#backend.calls.retryUntilAborted(signal, request.send));
      const outcome = outcomeOf(error);
      if (outcome === 'applied') return true;
      if (outcome !== 'condition failed') throw error;
    }
    return false;
  }
}

function error(error: Error): Verdict {
  return { again: 'never', error };
}
