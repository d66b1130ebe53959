import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Clock } from '../src/clock.js';
import { InvalidInputError, LeaseLostError } from '../src/errors.js';
import { startHeartbeat } from '../src/leases/heartbeat.js';
import { Calls } from '../src/retry.js';
import { NoReply } from './faults.js';

/** A fake clock that advances from sleep to sleep. */
class TestClock implements Clock {
  at = 0;
  readonly #sleepers = new Set<{ until: number; end: (passed: boolean) => void }>();

  now(): number {
    return this.at;
  }

  elapsed(): number {
    return this.at;
  }

  sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const sleeper = { until: this.at + milliseconds, end: resolve };
      this.#sleepers.add(sleeper);
      const stop = () => {
        this.#sleepers.delete(sleeper);
        resolve(false);
      };
      if (signal?.aborted) {
        stop();
      }
      signal?.addEventListener('abort', stop);
    });
  }

  /** Advances to a moment, waking each sleeper in order. */
  async advance(until: number): Promise<void> {
    for (;;) {
      await settled();
      const [next] = [...this.#sleepers].sort((a, b) => a.until - b.until);
      if (next === undefined || next.until > until) {
        this.at = until;
        return;
      }
      this.at = next.until;
      this.#sleepers.delete(next);
      next.end(true);
    }
  }
}

/** Waits until all pending microtasks and immediates have run. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function beating(refresh: (signal: AbortSignal) => Promise<unknown>, outer?: AbortSignal) {
  const clock = new TestClock();
  const heartbeat = startHeartbeat({ name: 'job', durationMs: 3000, acquiredAt: 0, clock, refresh }, outer);
  return { clock, heartbeat };
}

test('a lease is extended every third of its lifetime', async () => {
  const times: number[] = [];
  const { clock, heartbeat } = beating(async () => times.push(clock.at));
  await clock.advance(3500);
  assert.deepEqual(times, [1000, 2000, 3000]);
  assert.equal(heartbeat.signal.aborted, false);
  await heartbeat.stop();
  await clock.advance(9000);
  assert.equal(times.length, 3, 'nothing after stop');
});

test('a LeaseLostError ends the heartbeat at once', async () => {
  const { clock, heartbeat } = beating(async () => {
    throw new LeaseLostError('taken');
  });
  await clock.advance(1000);
  await settled();
  assert.match(String(heartbeat.signal.reason), /taken/);
  await heartbeat.stop();
});

test('with an unreachable store the lease is lost only when it expires by the local clock', async () => {
  let calls = 0;
  const { clock, heartbeat } = beating(async () => {
    calls++;
    throw new NoReply('no answer');
  });
  await clock.advance(2999);
  assert.equal(heartbeat.signal.aborted, false);
  await clock.advance(3000);
  await settled();
  assert.ok(heartbeat.signal.reason instanceof LeaseLostError);
  assert.ok(calls > 3, `retried: ${calls}`);
  await heartbeat.stop();
});

test('a hanging extension is cancelled when the lease expires', async () => {
  const { clock, heartbeat } = beating(
    (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  );
  await clock.advance(3000);
  await settled();
  assert.ok(heartbeat.signal.reason instanceof LeaseLostError);
  await heartbeat.stop();
});

test('a failed extension is retried', async () => {
  const times: number[] = [];
  const { clock, heartbeat } = beating(async () => {
    times.push(clock.at);
    if (times.length === 1) {
      throw new NoReply('no answer');
    }
  });
  await clock.advance(2500);
  assert.deepEqual(times, [1000, 1300, 2300]);
  await heartbeat.stop();
});

test('the outer signal stops the heartbeat', async () => {
  const outer = new AbortController();
  let calls = 0;
  const { clock, heartbeat } = beating(async () => calls++, outer.signal);
  outer.abort(new Error('shutdown'));
  assert.match(String(heartbeat.signal.reason), /shutdown/);
  await heartbeat.stop();
  await clock.advance(5000);
  assert.equal(calls, 0);
});

test('an already aborted signal starts no heartbeat', async () => {
  let calls = 0;
  const { clock, heartbeat } = beating(async () => calls++, AbortSignal.abort(new Error('shutdown')));
  await clock.advance(5000);
  assert.match(String(heartbeat.signal.reason), /shutdown/);
  assert.equal(calls, 0);
  await heartbeat.stop();
});

test('retries use exponential backoff with full jitter', async () => {
  const lengths: number[] = [];
  const clock: Clock = {
    now: () => 0,
    elapsed: () => 0,
    sleep: async (milliseconds) => {
      lengths.push(milliseconds);
      return true;
    },
  };
  const randoms = [0, 0.5, 0.999, 0];
  const calls = new Calls(clock, { retryDelayMs: 10, random: () => randoms.shift() ?? 0 });
  let attempts = 0;
  const failing = calls.retry(undefined, async () => {
    attempts++;
    throw new NoReply('no answer');
  });
  await assert.rejects(failing, NoReply);
  assert.equal(attempts, 4);
  assert.deepEqual(lengths.map(Math.round), [0, 20, 80]);
});

test('invalid timeouts and delays are rejected', () => {
  for (const callTimeoutMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '5' as never]) {
    assert.throws(() => new Calls(new TestClock(), { callTimeoutMs }), InvalidInputError);
    assert.throws(() => new Calls(new TestClock(), { retryDelayMs: callTimeoutMs }), InvalidInputError);
  }
});

test('a refused request is not retried', async () => {
  const calls = new Calls(new TestClock());
  let attempts = 0;
  const refusal = Object.assign(new Error('no'), { name: 'ValidationException', $fault: 'client' });
  const refused = calls.retry(undefined, async () => {
    attempts++;
    throw refusal;
  });
  await assert.rejects(refused, (error) => error === refusal);
  assert.equal(attempts, 1);
});
