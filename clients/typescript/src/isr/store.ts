import { readFailure, writeFailure } from '../classify.js';
import { floorSeconds } from '../clock.js';
import {
  InvalidInputError,
  LeaseHeldError,
  LeaseLostError,
  MovedError,
  NoVersionError,
  PinnedError,
  TheorydbError,
} from '../errors.js';
import { leaseLossOf, startHeartbeat } from '../heartbeat.js';
import { acquire, aheadOf } from './acquire.js';
import type { RequestEnd } from './attempt.js';
import { type Backend, failureOf, readRow } from './backend.js';
import { acquireFor } from './claim.js';
import { bareOf, contentOf, describedOf } from './commit.js';
import { type FaceTheoryIsrMetaStoreConfig, type Settings, settingsOf } from './config.js';
import type { Change, Entry, NextEntry, RequestRecord, Sequence } from './entry.js';
import { Fence } from './fence.js';
import { freshness, type State, staleUntilMs } from './freshness.js';
import { generationId } from './generationid.js';
import { backOff, breakLease, refresh, release } from './hold.js';
import { hashInputs } from './inputs.js';
import { checkCacheKey, checkRequestKey } from './key.js';
import { HeldLease, type Lease, leaseDuration } from './lease.js';
import { holdsUntil } from './lockrow.js';
import { readChanges, readSequence } from './log.js';
import type {
  Acquisition,
  Commit,
  Declaration,
  IsrMetaStore,
  LeaseRef,
  PageRef,
  Pin,
  Publishing,
  Rollback,
} from './metastore.js';
import { FOREVER_MS, PREFIX } from './names.js';
import { checkInterval, checkMoment, checkSeconds, normalize } from './normalize.js';
import { publish } from './publish.js';
import { type PageRecord, readPage } from './record.js';
import { endRequest } from './request.js';
import { readRequest } from './requestrow.js';
import { type Assertion, pin, rollback } from './rollback.js';
import { Swap } from './swap.js';
import { prune, versionsOf } from './version.js';

/** A lease is forgotten by its token this long after its end, in milliseconds of the monotonic clock. */
const forgetAfterMs = 60_000;

/** How often a rollback or a pin of whatever is there is tried again because another writer was there first. */
const mostMoves = 5;

/** The meta store on one DynamoDB table; see {@link IsrMetaStore}. It holds no resources and need not be closed. */
export class FaceTheoryIsrMetaStore implements IsrMetaStore {
  readonly #settings: Settings;
  readonly #backend: Backend;
  /** The leases of this process, for calls that have nothing but the token. */
  readonly #leases = new Map<string, HeldLease>();

  /**
   * `settings` are those of the config, for a caller that shares them with the store.
   * @throws InvalidInputError InvalidKeyError
   */
  constructor(config: FaceTheoryIsrMetaStoreConfig, settings: Settings = settingsOf(config)) {
    this.#settings = settings;
    this.#backend = this.#settings.backend;
  }

  async get(page: PageRef): Promise<(Entry & { state: State }) | null> {
    const { entry, cover } = await this.read(page);
    return entry ? { ...entry, state: freshness(entry, cover, this.#backend.clock.now()) } : null;
  }

  async read({ cacheKey, signal }: PageRef): Promise<PageRecord> {
    const pk = this.#pk(cacheKey);
    return reading(`read ${pk}`, readPage(this.#backend, signal, pk));
  }

  async tryAcquireLease(a: Acquisition): Promise<Lease | null> {
    try {
      return await this.acquireLease(a);
    } catch (error) {
      if (error instanceof LeaseHeldError) return null;
      throw error;
    }
  }

  async acquireLease(a: Acquisition): Promise<Lease> {
    const pk = this.#pk(a.cacheKey);
    const claim = this.#claim(a);
    const aheadMs = aheadOf(this.#backend, a.nowMs);
    const who = { cacheKey: a.cacheKey, pk, owner: a.leaseOwner ?? this.#settings.owner, aheadMs };
    const lease = await reading(
      `acquire the lease of ${pk}`,
      claim
        ? acquireFor(this.#backend, a.signal, who, a.leaseDurationMs, claim)
        : acquire(this.#backend, a.signal, who, a.leaseDurationMs),
    );
    await this.#look(lease, a.signal);
    this.#remember(lease);
    return lease;
  }

  #claim(a: Acquisition) {
    if (a.idempotencyKey === undefined) {
      if (a.inputs === undefined && a.requestHash === undefined) return undefined;
      throw new InvalidInputError('inputs and requestHash are those of a request: give its idempotencyKey');
    }
    if ((a.inputs === undefined) === (a.requestHash === undefined)) {
      throw new InvalidInputError(`the request ${a.idempotencyKey}: expected either inputs or requestHash`);
    }
    return {
      idempotencyKey: a.idempotencyKey,
      requestHash: a.requestHash ?? hashInputs(a.inputs),
      keepSeconds: a.requestKeepSeconds ?? this.#settings.requestKeepSeconds,
    };
  }

  /**
   * Reads META and then SEQ, under the lease and before rendering begins: a purge that
   * lands during the render has a higher sequence. If that fails, nobody needs the lease.
   */
  async #look(lease: HeldLease, signal: AbortSignal | undefined): Promise<void> {
    const looking = (async () => {
      const record = await readPage(this.#backend, signal, lease.pk);
      lease.saw(record, (await readSequence(this.#backend, signal)).seq);
    })();
    const error = await failureOf(looking);
    if (error === undefined) return;
    await this.#abandon(lease, `it was not begun: ${String(error)}`);
    throw readFailure(`read ${lease.pk} under its lease`, error);
  }

  /** Gives a lease up that nobody will use; what fails of that expires. */
  async #abandon(lease: HeldLease, why: string): Promise<void> {
    const ending = endRequest(lease, { failure: why }, (call) => this.#backend.calls.retry(undefined, call));
    const unended = await failureOf(ending);
    const unreleased = lease.ended ? undefined : await failureOf(release(lease, undefined));
    lease.end();
    const failure = unended ?? unreleased;
    if (failure === undefined) return;
    this.#backend.warn('a lease, or its request, could not be ended and is left to expire', { pk: lease.pk, failure });
  }

  async refreshLease(ref: LeaseRef & { leaseDurationMs?: number }): Promise<{ leaseExpiresAtMs: number }> {
    const lease = this.#named(ref, ref.leaseDurationMs);
    await writing(`refresh the lease of ${lease.pk}`, refresh(lease, ref.signal));
    return { leaseExpiresAtMs: lease.leaseExpiresAtMs };
  }

  async releaseLease(ref: LeaseRef): Promise<void> {
    const lease = this.#named(ref, 1000);
    await writing(`release the lease of ${lease.pk}`, release(lease, ref.signal));
  }

  async backOff(ref: LeaseRef, pauseMs: number): Promise<void> {
    const lease = this.#named(ref, 1000);
    await writing(`back off from ${lease.pk}`, backOff(lease, pauseMs, ref.signal));
  }

  async breakLease({ cacheKey, record, signal }: PageRef & { record: PageRecord }): Promise<void> {
    const fence = this.#fence(record, this.#pk(cacheKey));
    await writing(`break the lease of ${fence.pk}`, breakLease(this.#backend, fence, signal));
  }

  async withLease<T>(a: Acquisition, work: (lease: Lease, signal: AbortSignal) => Promise<T>): Promise<T> {
    const lease = this.#own(await this.acquireLease(a));
    const heartbeat = startHeartbeat(
      {
        name: lease.pk,
        durationMs: lease.leaseDurationMs,
        acquiredAt: lease.acquiredAt,
        clock: this.#backend.clock,
        refresh: (signal) => extend(lease, signal),
      },
      a.signal,
    );
    let failure = 'it was not published';
    try {
      const result = await work(lease, heartbeat.signal);
      const lost = leaseLossOf(heartbeat.signal);
      if (lost) throw lost;
      return result;
    } catch (error) {
      failure = String(error);
      throw leaseLossOf(heartbeat.signal, error) ?? error;
    } finally {
      await heartbeat.stop();
      await this.#finish(lease, failure);
    }
  }

  /** Releases the lease, and ends its request as failed, unless that was done. */
  async #finish(lease: HeldLease, failure: string): Promise<void> {
    if (!lease.ended || lease.attempt) await this.#abandon(lease, failure);
  }

  async commitGeneration(c: Commit): Promise<Entry> {
    const pk = this.#pk(c.cacheKey);
    const described = describedOf(c);
    const next: NextEntry = { contentSha256: '', contentLength: 0, ...contentOf(c), ...described };
    const known = this.#known(c.leaseToken, pk);
    const lease = known ?? (await reading(`read the lease of ${pk}`, this.#adopt(c, pk)));
    // The sequence of another process's render is not known: a row that says none is
    // judged by its time, in favour of every purge since.
    if (described && !known && next.purgeSeq === undefined) {
      throw new InvalidInputError(
        `the lease of ${pk} was taken by another process: give the purgeSeq that it read, or leave out what describes the content`,
      );
    }
    return this.#publish(lease, lease.record, next, c, !described);
  }

  async publish(lease: Lease, record: PageRecord, next: NextEntry, how: Publishing = {}): Promise<Entry> {
    return this.#publish(this.#own(lease), record, next, how, false);
  }

  async #publish(
    lease: HeldLease,
    record: PageRecord,
    next: NextEntry,
    how: Publishing,
    bare: boolean,
  ): Promise<Entry> {
    const b = this.#backend;
    const fence = this.#fence(record, lease.pk);
    const now = b.clock.now();
    const entry = normalize(
      { purgeSeq: lease.purgeSeq, key: lease.cacheKey, ...next },
      next.generationId ?? generationId(now, b.newToken()),
    );
    if (how.supersededAtMs !== undefined) checkMoment('supersededAtMs', how.supersededAtMs);
    if (how.keep !== undefined) checkInterval('keep', how.keep);
    // Decided by what was read: if it was pinned or unpinned since, the fence refuses.
    const pinnedUntilMs = record.entry?.pinnedUntilMs ?? 0;
    const isPinned = pinnedUntilMs > now;
    if (!how.unpin && isPinned) {
      throw new PinnedError(
        `the page ${lease.pk} is pinned until ${new Date(pinnedUntilMs).toISOString()}: unpin it first`,
      );
    }
    const ttl = next.ttlUnixSeconds ?? this.#horizon(entry);
    const kept = how.history ?? false;
    const swap = new Swap(b, fence, ttl === undefined ? entry : { ...entry, ttlUnixSeconds: ttl }, {
      kept,
      supersededAtMs: how.supersededAtMs,
      replaced: kept && (how.unchanged ?? false),
      bare,
    });
    const ends = isPinned ? { tenant: this.#settings.tenant, key: lease.cacheKey } : undefined;
    const published = await reading(`publish ${lease.pk}`, publish(lease, swap, ends, how.signal));
    // Crashing from here on leaves versions to expire at their time.
    if (kept && how.keep) await prune(b, lease.pk, Math.floor(how.keep));
    return bare ? bareOf(published) : published;
  }

  async versions({ cacheKey, signal }: PageRef): Promise<Entry[]> {
    const pk = this.#pk(cacheKey);
    return reading(`read the versions of ${pk}`, versionsOf(this.#backend, signal, pk));
  }

  async rollback(r: Rollback): Promise<Entry> {
    const { pinnedUntilMs = FOREVER_MS, assertedAtMs = this.#backend.clock.now() } = r;
    checkMoment('pinnedUntilMs', pinnedUntilMs);
    checkMoment('assertedAtMs', assertedAtMs);
    if (r.to !== undefined && typeof r.to !== 'string') {
      throw new InvalidInputError(`to is ${typeof r.to}: expected the id of a generation`);
    }
    // Chosen once: should another generation be published before the rollback, the one
    // before that is the very one that is to be left.
    const to = r.to ?? (await this.#previous(r));
    return this.#declare(`roll back to ${to}`, r, pinnedUntilMs, assertedAtMs, (record, assertion) =>
      rollback(this.#settings, r.signal, record, to, assertion),
    );
  }

  /** The generation that was published last before the current one; without a current one, all were before it. */
  async #previous(page: PageRef): Promise<string> {
    const ids = (await this.versions(page)).map((version) => version.generationId);
    // Read afterwards, it is current now, whatever was published in between.
    const { entry } = await this.read(page);
    const found = ids[ids.indexOf(entry?.generationId ?? '') + 1];
    if (found === undefined) {
      throw new NoVersionError(`no version of ${page.cacheKey} is kept from before the current generation`);
    }
    return found;
  }

  async pin(p: Pin): Promise<Entry> {
    checkMoment('untilMs', p.untilMs);
    return this.#pin(p, p.untilMs);
  }

  async unpin(p: Declaration): Promise<Entry> {
    return this.#pin(p, 0);
  }

  async #pin(p: Declaration, untilMs: number): Promise<Entry> {
    return this.#declare('pin', p, untilMs, this.#backend.clock.now(), (record, assertion) =>
      pin(this.#settings, p.signal, record, assertion),
    );
  }

  /** Carries out what somebody declares of a page: of the record that was given, or of the page as it is then. */
  async #declare(
    what: string,
    d: Declaration,
    pinnedUntilMs: number,
    assertedAtMs: number,
    carryOut: (record: PageRecord, assertion: Assertion) => Promise<Entry>,
  ): Promise<Entry> {
    const pk = this.#pk(d.cacheKey);
    const { ttlUnixSeconds: ttl } = d;
    if (ttl !== undefined) checkSeconds('ttlUnixSeconds', ttl);
    if (d.supersededAtMs !== undefined) checkMoment('supersededAtMs', d.supersededAtMs);
    const assertion = {
      page: { tenant: this.#settings.tenant, key: d.cacheKey },
      assertedAtMs: floorSeconds(assertedAtMs) * 1000,
      pinnedUntilMs: floorSeconds(pinnedUntilMs) * 1000 || undefined,
      ttlUnixSeconds: (entry: Entry) => (ttl === undefined ? this.#horizon(entry) : Math.floor(ttl)),
      supersededAtMs: d.supersededAtMs,
    };
    for (let moves = 1; ; moves++) {
      const record = d.record ?? (await this.read(d));
      this.#fence(record, pk);
      try {
        return await reading(`${what}: ${pk}`, carryOut(record, assertion));
      } catch (error) {
        if (!(error instanceof MovedError) || d.record || moves === mostMoves) throw error;
      }
    }
  }

  async request({
    cacheKey,
    idempotencyKey,
    signal,
  }: PageRef & { idempotencyKey: string }): Promise<RequestRecord | null> {
    const pk = this.#pk(cacheKey);
    checkRequestKey(idempotencyKey);
    const row = await reading(
      `read the request ${idempotencyKey} of ${pk}`,
      readRow(this.#backend, signal, pk, PREFIX.request + idempotencyKey),
    );
    return (row && readRequest(row, idempotencyKey, this.#backend.clock.now())) ?? null;
  }

  async endRequest(lease: Lease, end: RequestEnd): Promise<void> {
    const held = this.#own(lease);
    await writing(
      `end the request of the lease of ${held.pk}`,
      endRequest(held, end, (call) => this.#backend.calls.retry(undefined, call)),
    );
  }

  async sequence({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<Sequence> {
    const { seq, markLifetimeSeconds } = await reading('read the purge sequence', readSequence(this.#backend, signal));
    return { seq, markLifetimeSeconds };
  }

  async changes(after: number, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<Change[]> {
    return reading(`read the log after ${after}`, readChanges(this.#backend, signal, after));
  }

  /** The partition of a page. @throws InvalidKeyError */
  #pk(cacheKey: string): string {
    checkCacheKey(cacheKey);
    return this.#settings.partition(cacheKey);
  }

  /** The fence of a record, if it was read of this very page. */
  #fence(record: PageRecord, pk: string): Fence {
    const fence = record?.fence;
    if (fence instanceof Fence && fence.pk === pk) return fence;
    throw new InvalidInputError(`the record is none of ${pk}: read the page with this store`);
  }

  /** The lease, if this very store made it. */
  #own(lease: Lease): HeldLease {
    if (lease instanceof HeldLease && lease.backend === this.#backend) return lease;
    throw new InvalidInputError("the lease is none of this store's: acquire it here");
  }

  /** The lease of a token. Of another process's it knows nothing but that. */
  #named(ref: LeaseRef, durationMs: number | undefined): HeldLease {
    const pk = this.#pk(ref.cacheKey);
    const known = ref instanceof HeldLease && ref.backend === this.#backend ? ref : this.#known(ref.leaseToken, pk);
    if (known) return known;
    if (durationMs === undefined) {
      throw new InvalidInputError(`the lease of ${pk} was taken by another process: give its leaseDurationMs`);
    }
    return this.#strange(ref, pk, leaseDuration(durationMs));
  }

  #known(token: string, pk: string): HeldLease | undefined {
    if (typeof token !== 'string' || token === '') {
      throw new InvalidInputError('leaseToken is missing: expected the token of a lease');
    }
    const lease = this.#leases.get(token);
    return lease?.pk === pk ? lease : undefined;
  }

  #strange(ref: LeaseRef, pk: string, durationMs: number): HeldLease {
    const who = { cacheKey: ref.cacheKey, pk, owner: this.#settings.owner };
    return new HeldLease(this.#backend, who, ref.leaseToken, durationMs);
  }

  /** The lease of another process's token, as its row says now. */
  async #adopt(ref: LeaseRef, pk: string): Promise<HeldLease> {
    const record = await readPage(this.#backend, ref.signal, pk);
    const { clock } = this.#backend;
    const askedAt = clock.elapsed();
    const now = clock.now();
    const expiresAt = (record.lock?.expiresAtMs ?? 0) / 1000;
    if (record.fence.lock?.['lease_token']?.S !== ref.leaseToken || !holdsUntil(expiresAt, now)) {
      throw new LeaseLostError(`the lease of ${pk} is lost: it expired, or was taken or given up`);
    }
    const lease = this.#strange(ref, pk, leaseDuration(expiresAt * 1000 - now));
    lease.granted(expiresAt, askedAt);
    lease.saw(record, 0);
    return lease;
  }

  #remember(lease: HeldLease): void {
    const latest = this.#backend.clock.elapsed() - forgetAfterMs;
    for (const [token, old] of this.#leases) {
      if (old.ended || old.deadline < latest) this.#leases.delete(token);
    }
    this.#leases.set(lease.leaseToken, lease);
  }

  /**
   * When DynamoDB may collect an entry, in epoch seconds: garbage collection, a day
   * beyond all that could still need it; never, if it is pinned for ever.
   */
  #horizon(e: Entry): number | undefined {
    const { metaTtlSeconds } = this.#settings;
    const pinnedUntilMs = e.pinnedUntilMs ?? 0;
    if (metaTtlSeconds === undefined || pinnedUntilMs >= FOREVER_MS) return undefined;
    const last = Math.max(this.#backend.clock.now() + metaTtlSeconds * 1000, staleUntilMs(e), pinnedUntilMs);
    return Math.min(floorSeconds(last) + 24 * 3600, FOREVER_MS / 1000);
  }
}

/** Extends a lease, unless it is being given up: one that was published with, or backed off from, is not lost. */
async function extend(lease: HeldLease, signal: AbortSignal): Promise<void> {
  if (lease.yielded) return;
  const error = await failureOf(refresh(lease, signal));
  if (error !== undefined && !lease.yielded) throw error;
}

/** Makes the meta store of a table. @throws InvalidInputError InvalidKeyError */
export function createFaceTheoryIsrMetaStore(config: FaceTheoryIsrMetaStoreConfig): FaceTheoryIsrMetaStore {
  return new FaceTheoryIsrMetaStore(config);
}

/** Work whose answers are definite: DynamoDB's errors, as those of this package. */
async function reading<T>(name: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw readFailure(name, error);
  }
}

/** Work that leaves open, without an answer, whether it happened. */
async function writing<T>(name: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof TheorydbError ? error : writeFailure(name, [], error);
  }
}
