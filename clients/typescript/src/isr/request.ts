import { outcomeOf } from '../outcome.js';
import type { Call } from '../retry.js';
import { finishedRow, isMine, type RequestEnd } from './attempt.js';
import { alteration, failureOf } from './backend.js';
import type { HeldLease } from './lease.js';

/**
 * Writes the end of a lease's request, if it has one, by calls made so. If the attempt
 * is not ours, or was finished, that is so because another took it over, or because
 * an earlier call of ours was carried out.
 */
export async function endRequest(
  lease: HeldLease,
  end: RequestEnd,
  make: <T>(call: Call<T>) => Promise<T>,
): Promise<void> {
  const { attempt } = lease;
  if (!attempt) return;
  const write = alteration(lease.backend, lease.pk, attempt.sk, finishedRow(end), isMine(attempt));
  const error = await failureOf(make(write));
  if (error !== undefined && outcomeOf(error) !== 'condition failed') throw error;
  lease.endRequest();
}
