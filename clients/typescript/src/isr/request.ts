import { outcomeOf } from '../outcome.js';
import type { Call } from '../retry.js';
import { finishedRow, isCurrent, type RequestEnd } from './attempt.js';
import { errorOf, updateCall } from './backend.js';
import type { HeldLease } from './lease.js';

/**
 * Writes the end of a lease's request, if it has one. `call` makes the call, with its retry
 * policy. A failed condition is not an error: another process took the request over, or an
 * earlier attempt of ours was applied.
 */
export async function endRequest(
  lease: HeldLease,
  end: RequestEnd,
  call: <T>(call: Call<T>) => Promise<T>,
): Promise<void> {
  const { attempt } = lease;
  if (!attempt) return;
  const write = updateCall(lease.backend, lease.pk, attempt.sk, finishedRow(end), isCurrent(attempt));
  const error = await errorOf(call(write));
  if (error !== undefined && outcomeOf(error) !== 'condition failed') throw error;
  lease.endRequest();
}
