/** Heartbeats: extend a lease while a job runs, and abort the job's signal when the lease is lost. */

import type { Clock } from '../clock.js';
import { LeaseLostError } from '../errors.js';

/** The lease that a heartbeat extends. */
export interface HeartbeatOptions {
  /** Names the lease in error messages. */
  name: string;
  /** The lifetime that the acquisition and each extension grant, in milliseconds. */
  durationMs: number;
  /** When the acquisition startedAt, on the monotonic clock. */
  acquiredAt: number;
  clock: Clock;
  /**
   * Extends the lease. A {@link LeaseLostError} ends the heartbeat. After any other error
   * the outcome is unknown; the extension is retried until, by the monotonic clock,
   * another holder may have acquired the lease.
   */
  refresh: (signal: AbortSignal) => Promise<unknown>;
}

/** A running heartbeat. */
export interface Heartbeat {
  /** Aborted with the outer signal, or with a {@link LeaseLostError} as its reason when the lease is lost. */
  readonly signal: AbortSignal;
  /** Stops the heartbeat and resolves when no extension is in flight. It may be called more than once. */
  stop(): Promise<void>;
}

/** Extends a lease every third of its lifetime until the heartbeat is stopped, the lease is lost, or the outer signal is aborted. */
export function startHeartbeat(options: HeartbeatOptions, outer?: AbortSignal): Heartbeat {
  const held = new AbortController();
  const quit = new AbortController();
  const onAbort = () => held.abort(outer?.reason);
  held.signal.addEventListener('abort', () => quit.abort(), { once: true });
  outer?.addEventListener('abort', onAbort);
  if (outer?.aborted) {
    onAbort(); // aborted before the listener was added
  }
  const ended = run(options, held, quit.signal);
  return {
    signal: held.signal,
    async stop() {
      quit.abort();
      outer?.removeEventListener('abort', onAbort);
      await ended;
    },
  };
}

async function run(options: HeartbeatOptions, held: AbortController, quit: AbortSignal): Promise<void> {
  const { clock, durationMs } = options;
  let deadline = options.acquiredAt + durationMs;
  let next = options.acquiredAt + durationMs / 3;
  while (await clock.sleep(Math.max(0, next - clock.elapsed()), quit)) {
    const startedAt = clock.elapsed();
    const failure = await extend(options, deadline - startedAt, quit);
    if (failure === undefined) {
      // Conservative: the store counts from the later moment at which it saw the call.
      deadline = startedAt + durationMs;
      next = startedAt + durationMs / 3;
      continue;
    }
    // An unreachable store is not a lost lease: the same token may be refreshed until, by
    // our own clock, another holder may have acquired the lease.
    if (failure instanceof LeaseLostError || clock.elapsed() >= deadline) {
      held.abort(lost(options, failure));
      return;
    }
    next = Math.min(clock.elapsed() + durationMs / 10, deadline);
  }
}

/** Extends the lease once, within `leftMs` milliseconds. It returns the error, undefined on success. */
async function extend(options: HeartbeatOptions, leftMs: number, quit: AbortSignal): Promise<unknown> {
  const call = new AbortController();
  const onQuit = () => call.abort(quit.reason);
  quit.addEventListener('abort', onQuit);
  const overdue = options.clock.sleep(leftMs, call.signal).then((passed) => {
    if (passed) {
      call.abort(new DOMException('the lease expired', 'TimeoutError'));
    }
  });
  try {
    await options.refresh(call.signal);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    quit.removeEventListener('abort', onQuit);
    call.abort();
    await overdue;
  }
}

function lost(options: HeartbeatOptions, failure: unknown): LeaseLostError {
  if (failure instanceof LeaseLostError) {
    return failure;
  }
  return new LeaseLostError(
    `the lease of ${options.name} is lost: it expired before an extension was confirmed; stop, and let the next holder do the work`,
    { cause: failure },
  );
}

/**
 * Returns the LeaseLostError with which a job's signal was aborted, undefined if its lease
 * was not lost. A different error of the job becomes the cause, next to the cause of the
 * loss.
 */
export function leaseLossOf(signal: AbortSignal, failure?: unknown): LeaseLostError | undefined {
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
