import { ConditionFailedError, LeaseLostError, MovedError } from '../errors.js';
import { outcomeOf } from '../outcome.js';
import { deleteLock } from './acquire.js';
import { finishedRow, isCurrent } from './attempt.js';
import { type Backend, errorOf, randomText, readSerializableUntilAborted } from './backend.js';
import type { Entry, Target } from './entry.js';
import { execute, type Verdict, type Write } from './execute.js';
import { conditionOf, updateOf } from './expression.js';
import { versionOf } from './fence.js';
import type { HeldLease } from './lease.js';
import { describeHolder, isHeld } from './lockrow.js';
import { advance, readSequence, reloadTarget } from './log.js';
import { SK } from './names.js';
import { child, type Row, text } from './row.js';
import type { Swap } from './swap.js';
import { type Action, onRow, WriteRequest } from './transaction.js';

/**
 * Makes an entry current and releases the lease, in one transaction: it updates META if
 * META is unchanged since it was read, and deletes LOCK if we hold an unexpired lease. With
 * history it also puts the generation's version row and sets the ttl of the superseded one.
 * If the lease has a request, it is completed. `unpinned` is the page if this publish ends
 * its pin: the same transaction logs that, for nodes with the pinned generation in memory.
 *
 * An unanswered transaction is retried unchanged under the same client token until the
 * lease unpinned or the signal is aborted. After that LOCK is deleted, so that the transaction
 * can no longer be applied, and the rows are read to settle the outcome.
 * @throws LeaseLostError MovedError UnknownOutcomeError
 */
export async function publish(
  lease: HeldLease,
  swap: Swap,
  unpinned: Target | undefined,
  signal: AbortSignal | undefined,
): Promise<Entry> {
  if (lease.ended) throw new LeaseLostError(`the lease of ${lease.pk} is lost: it was released`);
  try {
    await lease.releasing(() => execute(lease.backend, signal, new PublishWrite(lease, swap, unpinned)));
  } catch (error) {
    if (error instanceof LeaseLostError) lease.end();
    throw error;
  }
  lease.markReleased();
  lease.endRequest();
  return swap.next;
}

/** The write of one publish. */
class PublishWrite implements Write {
  readonly name: string;
  readonly #lease: HeldLease;
  readonly #swap: Swap;
  /** The page, if the publish ends its pin. */
  readonly #unpinned: Target | undefined;
  readonly #backend: Backend;

  constructor(lease: HeldLease, swap: Swap, unpinned: Target | undefined) {
    this.name = `publish of the generation ${swap.next.generationId} of ${lease.pk}`;
    this.#lease = lease;
    this.#swap = swap;
    this.#unpinned = unpinned;
    this.#backend = lease.backend;
  }

  /**
   * Builds a request with a new client token and the current time. The conditional delete of
   * LOCK both releases the lease and checks that it is held: DynamoDB allows one action per
   * item in a transaction.
   */
  async request(signal: AbortSignal | undefined): Promise<WriteRequest> {
    const { pk, leaseToken } = this.#lease;
    const logged = await this.#logUnpin(signal);
    const held = conditionOf(isHeld(leaseToken, this.#backend.clock.now()));
    return new WriteRequest(this.#backend, [
      this.#swap.updateMeta(),
      { purpose: 'lock', item: { Delete: { ...onRow(this.#backend, pk, SK.lock), ...held } } },
      ...this.#swap.putVersion(),
      ...this.#swap.expireSuperseded(),
      ...this.#completeRequest(),
      ...logged,
    ]);
  }

  /** Logs the end of a pin. It cannot share a batch with other changes, since it is bound to its lease. */
  async #logUnpin(signal: AbortSignal | undefined): Promise<Action[]> {
    if (!this.#unpinned) return [];
    const seen = await readSequence(this.#backend, signal);
    return advance(this.#backend, seen, randomText(), [reloadTarget(this.#unpinned)]);
  }

  /** Records the generation as the result of the lease's request, unless that was already ended. */
  #completeRequest(): Action[] {
    const { attempt, pk } = this.#lease;
    if (!attempt) return [];
    const completed = updateOf(finishedRow({ result: this.#swap.next }), isCurrent(attempt));
    return [{ purpose: 'request', item: { Update: { ...onRow(this.#backend, pk, attempt.sk), ...completed } } }];
  }

  running(): boolean {
    return this.#lease.running();
  }

  /**
   * Interprets the failed conditions. The returned rows settle the common case of a lost
   * reply without another read: META already carries our generation.
   */
  async judge(request: WriteRequest, refused: unknown): Promise<Verdict> {
    const { pk } = this.#lease;
    const why = request.refusal(refused);
    if (why.has('meta') && this.#isOurs(why.get('meta'))) return { retry: 'never' };
    if (why.has('lock')) {
      const moved = why.has('meta') ? ', and the entry was changed by another writer' : '';
      const holder = describeHolder(why.get('lock'));
      return error(new LeaseLostError(`the lease of ${pk} is lost: ${holder}${moved}; read the page again`));
    }
    if (why.has('meta'))
      return error(new MovedError(`the entry of ${pk} was changed by another writer: read it again`));
    // The process that took the request over has acquired the lease as well, or will.
    if (why.has('request')) {
      return error(new LeaseLostError(`the lease of ${pk} is lost: its request was taken over or has ended`));
    }
    if (why.has('version')) return error(this.#duplicateId());
    if (why.has('superseded')) this.#swap.dropSuperseded(); // it has been deleted
    // Another change of the log was faster: read SEQ again after backoff.
    return { retry: why.has('sequence') ? 'later' : 'now' };
  }

  #duplicateId(): ConditionFailedError {
    const { generationId } = this.#swap.next;
    return new ConditionFailedError(
      `the version ${generationId} of ${this.#lease.pk} already exists: generation ids must be unique`,
    );
  }

  #isOurs(meta: Row | undefined): boolean {
    return text(child(meta, 'isr'), 'generation_id') === this.#swap.next.generationId;
  }

  /**
   * Deletes LOCK if it carries our token, retrying until DynamoDB answers. After that none
   * of our requests can be applied, since each requires the token. If we crash before, the
   * lease expires.
   */
  async revoke(cause: unknown, signal: AbortSignal): Promise<unknown> {
    const { gone } = await deleteLock(this.#lease, signal);
    this.#lease.end();
    if (!gone) return cause; // we held it until now
    return new LeaseLostError(`the lease of ${this.#lease.pk} is lost: ${String(cause)}`, { cause });
  }

  /** Looks for our generation in META, its version row, and the remembered client tokens. */
  async committed(sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean> {
    const { currentSk } = this.#swap;
    // The version row is written in the same transaction as META, and read in one with it.
    const sks = currentSk === '' ? [SK.meta] : [SK.meta, currentSk];
    const rows = await readSerializableUntilAborted(this.#backend, signal, this.#lease.pk, sks);
    const meta = rows.get(SK.meta);
    if (this.#isOurs(meta)) return true;
    const v = versionOf(meta);
    if (!meta || (v !== undefined && v <= this.#swap.version)) return false; // unchanged, or another writer used our version
    if (rows.has(currentSk)) return true;
    return this.#appliedByToken(sent, signal);
  }

  /**
   * Handles a META row that another writer changed, after our publish or instead of it.
   * DynamoDB remembers the results of our client tokens. Retrying our requests is safe now:
   * each is answered from that memory, or fails its conditions.
   */
  async #appliedByToken(sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean> {
    for (const request of sent) {
      const error = await errorOf(this.#backend.calls.retryUntilAborted(signal, request.send));
      const outcome = outcomeOf(error);
      if (outcome === 'applied') return true;
      if (outcome !== 'condition failed') throw error;
    }
    return false;
  }
}

function error(error: Error): Verdict {
  return { retry: 'never', error };
}
