/** Keeps a lease for as long as a job runs, and tells the job when it is lost. */

import type { Clock } from './clock.js';
import { LeaseLostError } from './errors.js';

/** A lease that is to be kept. */
export interface Keeping {
  /** For error messages: whose lease it is. */
  name: string;
  /** The lifetime that the lease was acquired for, and is extended by, in milliseconds. */
  durationMs: number;
  /** When the acquisition was begun, on the monotonic clock. */
  acquiredAt: number;
  clock: Clock;
  /**
   * Extends the lease. A {@link LeaseLostError} ends it; any other error leaves open
   * whether it was extended, and it is tried again until the monotonic clock says
   * that somebody else may have the lease.
   */
  refresh: (signal: AbortSignal) => Promise<unknown>;
}

/** A lease that is being kept. */
export interface Heartbeat {
  /** Aborted with the outer signal, and with a {@link LeaseLostError} as its reason once the lease is lost. */
  readonly signal: AbortSignal;
  /** Ends the heartbeat. It resolves when no extension is under way any more, and may be called again. */
  stop(): Promise<void>;
}

/** Extends a lease at a third of its lifetime until it is stopped or lost, or the outer signal is aborted. */
export function keepLease(keeping: Keeping, outer?: AbortSignal): Heartbeat {
  const held = new AbortController();
  const quit = new AbortController();
  const onAbort = () => held.abort(outer?.reason);
  held.signal.addEventListener('abort', () => quit.abort(), { once: true });
  outer?.addEventListener('abort', onAbort);
  if (outer?.aborted) {
    onAbort(); // it was, before anybody listened
  }
  const ended = beat(keeping, held, quit.signal);
  return {
    signal: held.signal,
    async stop() {
      quit.abort();
      outer?.removeEventListener('abort', onAbort);
      await ended;
    },
  };
}

async function beat(keeping: Keeping, held: AbortController, quit: AbortSignal): Promise<void> {
  const { clock, durationMs } = keeping;
  let deadline = keeping.acquiredAt + durationMs;
  let next = keeping.acquiredAt + durationMs / 3;
  while (await clock.sleep(Math.max(0, next - clock.elapsed()), quit)) {
    const began = clock.elapsed();
    const failure = await extend(keeping, deadline - began, quit);
    if (failure === undefined) {
      // The store counts from when it saw the call, which is later.
      deadline = began + durationMs;
      next = began + durationMs / 3;
      continue;
    }
    // Unreachable is not lost: the same token may be refreshed again, until our own
    // clock says that somebody else may have it.
    if (failure instanceof LeaseLostError || clock.elapsed() >= deadline) {
      held.abort(lost(keeping, failure));
      return;
    }
    next = Math.min(clock.elapsed() + durationMs / 10, deadline);
  }
}

/** Extends the lease once, within so many milliseconds; it returns the error, if there is one. */
async function extend(keeping: Keeping, leftMs: number, quit: AbortSignal): Promise<unknown> {
  const call = new AbortController();
  const onQuit = () => call.abort(quit.reason);
  quit.addEventListener('abort', onQuit);
  const overdue = keeping.clock.sleep(leftMs, call.signal).then((passed) => {
    if (passed) {
      call.abort(new DOMException('the lease ran out', 'TimeoutError'));
    }
  });
  try {
    await keeping.refresh(call.signal);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    quit.removeEventListener('abort', onQuit);
    call.abort();
    await overdue;
  }
}

function lost(keeping: Keeping, failure: unknown): LeaseLostError {
  if (failure instanceof LeaseLostError) {
    return failure;
  }
  return new LeaseLostError(
    `the lease of ${keeping.name} is lost: it ran out before an extension was confirmed; stop, and let the next holder do the work`,
    { cause: failure },
  );
}

/**
 * Why a job failed whose signal was aborted because its lease is lost; undefined if the
 * lease is not. The job's own error, if it is another one, is the cause, beside what the
 * loss was caused by.
 */
export function lossOf(signal: AbortSignal, failure?: unknown): LeaseLostError | undefined {
  const { reason } = signal;
  if (!(reason instanceof LeaseLostError)) {
    return undefined;
  }
  if (failure === undefined || isCausedBy(failure, reason)) {
    return reason;
  }
  const cause =
    reason.cause === undefined
      ? failure
      : new AggregateError([failure, reason.cause], 'the job failed, and its lease is lost');
  return new LeaseLostError(reason.message, { cause });
}

function isCausedBy(error: unknown, cause: unknown): boolean {
  for (let at = error, depth = 0; at !== undefined && depth < 100; depth++) {
    if (at === cause) return true;
    at = at instanceof Error ? at.cause : undefined;
  }
  return false;
}
