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
import { leaseLossOf } from '../leases/heartbeat.js';
import { LeaseRegistry } from '../leases/registry.js';
import { checkOptions } from '../options.js';
import { acquire, clockAheadOf } from './acquire.js';
import type { RequestEnd } from './attempt.js';
import { type Backend, errorOf, readRow } from './backend.js';
import { build } from './build.js';
import { acquireFor } from './claim.js';
import { bareOf, contentOf, describedOf } from './commit.js';
import { type FaceTheoryIsrMetaStoreConfig, type Settings, settingsOf } from './config.js';
import type { Change, Entry, Mark, NextEntry, PurgeState, RequestRecord, Sequence } from './entry.js';
import { Fence } from './fence.js';
import { freshness, type State, staleUntilMs } from './freshness.js';
import { generationId } from './generationid.js';
import { hashInputs } from './inputs.js';
import { checkCacheKey, checkRequestKey } from './key.js';
import { HeldLease, type Lease, leaseDuration } from './lease.js';
import { backOff, breakLease, refresh, release } from './leaseupdate.js';
import { holdsUntil } from './lockrow.js';
import { readChanges, readSequence } from './log.js';
import { covering, readMarks } from './mark.js';
import { acquisition, commit, covered, declaration, pinning, publishing, purging, rollingBack } from './members.js';
import type {
  Acquisition,
  Commit,
  Covered,
  Declaration,
  IsrMetaStore,
  LeaseRef,
  PageRef,
  Pin,
  Publishing,
  RefreshedLease,
  Rollback,
} from './metastore.js';
import { FOREVER_MS, PREFIX } from './names.js';
import { checkInterval, checkMoment, checkPinEnd, checkSeconds, normalize } from './normalize.js';
import { publish } from './publish.js';
import { Purge, type PurgeOptions, type Receipt } from './purge.js';
import type { PurgeTarget } from './purgetarget.js';
import { type PageRecord, readPage } from './record.js';
import { endRequest } from './request.js';
import { readRequest } from './requestrow.js';
import { type Assertion, pin, rollback } from './rollback.js';
import { Swap } from './swap.js';
import { prune, versionsOf } from './version.js';

/** How many attempts a rollback or a pin makes when other writers keep changing the page. */
const maxAttempts = 5;

/** The meta store on a DynamoDB table; see {@link IsrMetaStore}. `close` gives back its leases; without leases it holds no resources. */
export class FaceTheoryIsrMetaStore implements IsrMetaStore {
  readonly #settings: Settings;
  readonly #backend: Backend;
  /** The leases of this process by token, for calls that pass only the token. */
  readonly #leases: LeaseRegistry;

  /** @throws InvalidInputError InvalidKeyError */
  constructor(config: FaceTheoryIsrMetaStoreConfig);
  /**
   * `settings` must be derived from `config`; a caller passes them to share the backend.
   * @internal
   */
  constructor(config: FaceTheoryIsrMetaStoreConfig, settings: Settings);
  constructor(config: FaceTheoryIsrMetaStoreConfig, settings: Settings = settingsOf(config)) {
    this.#settings = settings;
    this.#backend = this.#settings.backend;
    this.#leases = new LeaseRegistry(() => this.#backend.clock.elapsed());
  }

  async get(page: PageRef): Promise<(Entry & { state: State }) | null> {
    const { entry, purge } = await this.read(page);
    return entry ? { ...entry, state: freshness(entry, purge, this.#backend.clock.now()) } : null;
  }

  async read({ cacheKey, signal }: PageRef): Promise<PageRecord> {
    const pk = this.#pk(cacheKey);
    return mapReadError(`read ${pk}`, readPage(this.#backend, signal, pk));
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
    this.#leases.checkOpen();
    const pk = this.#pk(a.cacheKey);
    checkOptions('an acquisition', a, acquisition);
    const claim = this.#claim(a);
    const aheadMs = clockAheadOf(this.#backend, a.nowMs);
    const acquirer = { cacheKey: a.cacheKey, pk, owner: a.leaseOwner ?? this.#settings.owner, aheadMs };
    const lease = await mapReadError(
      `acquire the lease of ${pk}`,
      claim
        ? acquireFor(this.#backend, a.signal, acquirer, a.leaseDurationMs, claim)
        : acquire(this.#backend, a.signal, acquirer, a.leaseDurationMs),
    );
    await this.#readUnderLease(lease, a.signal);
    try {
      this.#leases.add(lease);
    } catch (error) {
      await this.#abandon(lease, 'the store was closed');
      throw error;
    }
    return lease;
  }

  #claim(a: Acquisition) {
    if (a.idempotencyKey === undefined) {
      if (a.inputs === undefined && a.requestHash === undefined) return undefined;
      throw new InvalidInputError('inputs and requestHash need an idempotencyKey');
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
   * Reads META and then SEQ, under the lease and before rendering begins, so that a purge
   * during the render has a higher sequence. If a read fails, the lease is released.
   */
  async #readUnderLease(lease: HeldLease, signal: AbortSignal | undefined): Promise<void> {
    const reading = (async () => {
      const record = await readPage(this.#backend, signal, lease.pk);
      lease.observed(record, (await readSequence(this.#backend, signal)).seq);
    })();
    const error = await errorOf(reading);
    if (error === undefined) return;
    await this.#abandon(lease, `not started: ${String(error)}`);
    throw readFailure(`read ${lease.pk} under its lease`, error);
  }

  /** Releases a lease that is not used, and fails its request. What cannot be released expires. */
  async #abandon(lease: HeldLease, why: string): Promise<void> {
    const ending = endRequest(lease, { failure: why }, (call) => this.#backend.calls.retry(undefined, call));
    const unended = await errorOf(ending);
    const unreleased = lease.ended ? undefined : await errorOf(release(lease, undefined));
    lease.end();
    const failure = unended ?? unreleased;
    if (failure === undefined) return;
    this.#backend.warn('failed to release a lease or to end its request; it will expire', { pk: lease.pk, failure });
  }

  async refreshLease(ref: LeaseRef & { leaseDurationMs?: number }): Promise<RefreshedLease> {
    const lease = this.#resolve(ref, ref.leaseDurationMs);
    await mapWriteError(`refresh the lease of ${lease.pk}`, refresh(lease, ref.signal));
    const { cacheKey, leaseToken, leaseExpiresAtMs, leaseDurationMs } = lease;
    return { cacheKey, leaseToken, leaseExpiresAtMs, leaseDurationMs };
  }

  async releaseLease(ref: LeaseRef & { leaseOwner?: string }): Promise<void> {
    const lease = this.#resolve(ref, 1000);
    await mapWriteError(`release the lease of ${lease.pk}`, release(lease, ref.signal));
  }

  async backOff(ref: LeaseRef, pauseMs: number): Promise<void> {
    const lease = this.#resolve(ref, 1000);
    await mapWriteError(`back off from ${lease.pk}`, backOff(lease, pauseMs, ref.signal));
  }

  async breakLease({ cacheKey, record, signal }: PageRef & { record: PageRecord }): Promise<void> {
    const fence = this.#fence(record, this.#pk(cacheKey));
    await mapWriteError(`break the lease of ${fence.pk}`, breakLease(this.#backend, fence, signal));
  }

  async withLease<T>(a: Acquisition, work: (lease: Lease, signal: AbortSignal) => Promise<T>): Promise<T> {
    const lease = this.#own(await this.acquireLease(a));
    const heartbeat = this.#leases.startHeartbeat(
      {
        name: lease.pk,
        durationMs: lease.leaseDurationMs,
        acquiredAt: lease.acquiredAt,
        clock: this.#backend.clock,
        refresh: (signal) => extend(lease, signal),
      },
      a.signal,
    );
    let failure = 'not published';
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

  async close(): Promise<void> {
    await this.#leases.close((lease) => this.#finish(lease, 'the store was closed'));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Releases the lease and fails its request, unless that has happened. */
  async #finish(lease: HeldLease, failure: string): Promise<void> {
    if (!lease.ended || lease.attempt) await this.#abandon(lease, failure);
  }

  async commitGeneration(c: Commit): Promise<Entry> {
    const pk = this.#pk(c.cacheKey);
    checkOptions('commitGeneration', c, commit);
    clockAheadOf(this.#backend, c.nowMs);
    const described = describedOf(c);
    const next: NextEntry = { contentSha256: '', contentLength: 0, ...contentOf(c), ...described };
    const known = this.#known(c.leaseToken, pk);
    const lease = known ?? (await mapReadError(`read the lease of ${pk}`, this.#adopt(c, pk)));
    // The purge sequence of another process's render is unknown. A row without one is
    // compared by its time, in favour of every purge since.
    if (described && !known && next.purgeSeq === undefined) {
      throw new InvalidInputError(
        `the lease of ${pk} was acquired by another process: pass the purgeSeq that it read, or omit the members that describe the content`,
      );
    }
    return this.#publish(lease, lease.record, next, c, !described);
  }

  async publish(lease: Lease, record: PageRecord, next: NextEntry, how: Publishing = {}): Promise<Entry> {
    checkOptions('publish', how, publishing);
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
    // Checked against the record: if the page was pinned or unpinned since, the fence fails.
    const pinnedUntilMs = record.entry?.pinnedUntilMs ?? 0;
    const isPinned = pinnedUntilMs > now;
    if (!how.unpin && isPinned) {
      throw new PinnedError(
        `the page ${lease.pk} is pinned until ${new Date(pinnedUntilMs).toISOString()}: unpin it first`,
      );
    }
    const ttl = next.ttlUnixSeconds ?? this.#ttlOf(entry);
    const kept = how.history ?? false;
    const swap = new Swap(b, fence, ttl === undefined ? entry : { ...entry, ttlUnixSeconds: ttl }, {
      kept,
      supersededAtMs: how.supersededAtMs,
      replaced: kept && (how.unchanged ?? false),
      bare,
    });
    const unpinned = isPinned ? { tenant: this.#settings.tenant, key: lease.cacheKey } : undefined;
    const published = await mapReadError(`publish ${lease.pk}`, publish(lease, swap, unpinned, how.signal));
    // If we crash here, surplus versions expire by their ttl.
    if (kept && how.keep) await prune(b, lease.pk, Math.floor(how.keep));
    return bare ? bareOf(published) : published;
  }

  async versions({ cacheKey, signal }: PageRef): Promise<Entry[]> {
    const pk = this.#pk(cacheKey);
    return mapReadError(`read the versions of ${pk}`, versionsOf(this.#backend, signal, pk));
  }

  async rollback(r: Rollback): Promise<Entry> {
    checkOptions('rollback', r, rollingBack);
    const { pinnedUntilMs = FOREVER_MS, assertedAtMs = this.#backend.clock.now() } = r;
    checkPinEnd('pinnedUntilMs', pinnedUntilMs);
    checkMoment('assertedAtMs', assertedAtMs);
    if (r.to !== undefined && typeof r.to !== 'string') {
      throw new InvalidInputError(`to is of type ${typeof r.to}: expected the id of a generation`);
    }
    // Chosen once: after a concurrent publish, the generation before the new one would be the
    // one to roll back from.
    const to = r.to ?? (await this.#previous(r));
    return this.#declare(`roll back to ${to}`, r, pinnedUntilMs, assertedAtMs, (record, assertion) =>
      rollback(this.#settings, r.signal, record, to, assertion),
    );
  }

  /** Returns the generation published before the current one; the newest if there is no current one. */
  async #previous(page: PageRef): Promise<string> {
    const ids = (await this.versions(page)).map((version) => version.generationId);
    // Read after the versions, so that a generation published in between is not taken for
    // the previous one.
    const { entry } = await this.read(page);
    const found = ids[ids.indexOf(entry?.generationId ?? '') + 1];
    if (found === undefined) {
      throw new NoVersionError(`${page.cacheKey} has no kept version before the current generation`);
    }
    return found;
  }

  async pin(p: Pin): Promise<Entry> {
    checkOptions('pin', p, pinning);
    checkPinEnd('untilMs', p.untilMs);
    return this.#pin(p, p.untilMs);
  }

  async unpin(p: Declaration): Promise<Entry> {
    checkOptions('unpin', p, declaration);
    return this.#pin(p, 0);
  }

  async #pin(p: Declaration, untilMs: number): Promise<Entry> {
    return this.#declare('pin', p, untilMs, this.#backend.clock.now(), (record, assertion) =>
      pin(this.#settings, p.signal, record, assertion),
    );
  }

  /** Applies a rollback, pin or unpin to the given record, or to the current state with retries. */
  async #declare(
    what: string,
    d: Declaration,
    pinnedUntilMs: number,
    assertedAtMs: number,
    apply: (record: PageRecord, assertion: Assertion) => Promise<Entry>,
  ): Promise<Entry> {
    const pk = this.#pk(d.cacheKey);
    const { ttlUnixSeconds: ttl } = d;
    if (ttl !== undefined) checkSeconds('ttlUnixSeconds', ttl);
    if (d.supersededAtMs !== undefined) checkMoment('supersededAtMs', d.supersededAtMs);
    const assertion = {
      page: { tenant: this.#settings.tenant, key: d.cacheKey },
      assertedAtMs: floorSeconds(assertedAtMs) * 1000,
      pinnedUntilMs: floorSeconds(pinnedUntilMs) * 1000 || undefined,
      ttlUnixSeconds: (entry: Entry) => (ttl === undefined ? this.#ttlOf(entry) : Math.floor(ttl)),
      supersededAtMs: d.supersededAtMs,
    };
    for (let attempt = 1; ; attempt++) {
      const record = d.record ?? (await this.read(d));
      this.#fence(record, pk);
      try {
        return await mapReadError(`${what}: ${pk}`, apply(record, assertion));
      } catch (error) {
        if (!(error instanceof MovedError) || d.record || attempt === maxAttempts) throw error;
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
    const row = await mapReadError(
      `read the request ${idempotencyKey} of ${pk}`,
      readRow(this.#backend, signal, pk, PREFIX.request + idempotencyKey),
    );
    return (row && readRequest(row, idempotencyKey, this.#backend.clock.now())) ?? null;
  }

  async endRequest(lease: Lease, end: RequestEnd): Promise<void> {
    const held = this.#own(lease);
    await mapWriteError(
      `end the request of the lease of ${held.pk}`,
      endRequest(held, end, (call) => this.#backend.calls.retry(undefined, call)),
    );
  }

  async purge(targets: readonly PurgeTarget[], options: PurgeOptions = {}): Promise<Receipt> {
    checkOptions('purge', options, purging);
    const purge = new Purge(this.#settings, targets, options);
    return { seq: await mapReadError(purge.name, this.#settings.log.append(purge, options.signal)) };
  }

  async marks({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<Mark[]> {
    return mapReadError('read the purge marks', readMarks(this.#backend, signal));
  }

  async covering(page: Covered): Promise<PurgeState> {
    checkOptions('covering', page, covered);
    const { cacheKey, tags = [], signal } = page;
    checkCacheKey(cacheKey);
    const { markLifetimeSeconds } = await this.sequence({ signal });
    const at = { tenant: this.#settings.tenant, key: cacheKey };
    const marks = mapReadError(`read the purge marks of ${cacheKey}`, covering(this.#backend, signal, at, tags));
    return { ...(await marks), markLifetimeSeconds };
  }

  async build(id: string, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<number> {
    return mapReadError('read or deploy the build', build(this.#settings, signal, id));
  }

  async sequence({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<Sequence> {
    const { seq, markLifetimeSeconds } = await mapReadError(
      'read the purge sequence',
      readSequence(this.#backend, signal),
    );
    return { seq, markLifetimeSeconds };
  }

  async changes(after: number, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<Change[]> {
    return mapReadError(`read the log after ${after}`, readChanges(this.#backend, signal, after));
  }

  /** Returns the partition key of a page. @throws InvalidKeyError */
  #pk(cacheKey: string): string {
    checkCacheKey(cacheKey);
    return this.#settings.partition(cacheKey);
  }

  /** Returns the fence of a record, which must be of this page. */
  #fence(record: PageRecord, pk: string): Fence {
    const fence = record?.fence;
    if (fence instanceof Fence && fence.pk === pk) return fence;
    throw new InvalidInputError(`the record is not of ${pk}: read the page with this store`);
  }

  /** Returns the lease, which must come from this store. */
  #own(lease: Lease): HeldLease {
    if (lease instanceof HeldLease && lease.backend === this.#backend) return lease;
    throw new InvalidInputError('the lease was not acquired by this store: acquire it here');
  }

  /** Resolves a lease by its token. For another process's lease only the token is known. */
  #resolve(ref: LeaseRef, durationMs: number | undefined): HeldLease {
    const pk = this.#pk(ref.cacheKey);
    const known = ref instanceof HeldLease && ref.backend === this.#backend ? ref : this.#known(ref.leaseToken, pk);
    if (known) return known;
    if (durationMs === undefined) {
      throw new InvalidInputError(`the lease of ${pk} was acquired by another process: pass its leaseDurationMs`);
    }
    return this.#foreignLease(ref, pk, leaseDuration(durationMs));
  }

  #known(token: string, pk: string): HeldLease | undefined {
    if (typeof token !== 'string' || token === '') {
      throw new InvalidInputError('leaseToken is missing: expected the token of a lease');
    }
    const lease = this.#leases.get(token);
    return lease?.pk === pk ? lease : undefined;
  }

  #foreignLease(ref: LeaseRef, pk: string, durationMs: number): HeldLease {
    const acquirer = { cacheKey: ref.cacheKey, pk, owner: this.#settings.owner };
    return new HeldLease(this.#backend, acquirer, ref.leaseToken, durationMs);
  }

  /** Reconstructs the lease of another process from its token and the current LOCK row. */
  async #adopt(ref: LeaseRef, pk: string): Promise<HeldLease> {
    const record = await readPage(this.#backend, ref.signal, pk);
    const { clock } = this.#backend;
    const askedAt = clock.elapsed();
    const now = clock.now();
    const expiresAt = (record.lock?.expiresAtMs ?? 0) / 1000;
    if (record.fence.lock?.['lease_token']?.S !== ref.leaseToken || !holdsUntil(expiresAt, now)) {
      throw new LeaseLostError(`the lease of ${pk} is lost: it expired, was released, or another process acquired it`);
    }
    const lease = this.#foreignLease(ref, pk, leaseDuration(expiresAt * 1000 - now));
    lease.granted(expiresAt, askedAt);
    lease.observed(record, 0);
    return lease;
  }

  /**
   * Returns the ttl of an entry, in epoch seconds: one day after its last possible use;
   * undefined if there is no `metaTtlSeconds`, or the entry is pinned without end.
   */
  #ttlOf(e: Entry): number | undefined {
    const { metaTtlSeconds } = this.#settings;
    const pinnedUntilMs = e.pinnedUntilMs ?? 0;
    if (metaTtlSeconds === undefined || pinnedUntilMs >= FOREVER_MS) return undefined;
    const last = Math.max(this.#backend.clock.now() + metaTtlSeconds * 1000, staleUntilMs(e), pinnedUntilMs);
    return Math.min(floorSeconds(last) + 24 * 3600, FOREVER_MS / 1000);
  }
}

/** Extends a lease unless it is being released: a lease that was published with or backed off from is not lost. */
async function extend(lease: HeldLease, signal: AbortSignal): Promise<void> {
  if (lease.releasedOrReleasing) return;
  const error = await errorOf(refresh(lease, signal));
  if (error !== undefined && !lease.releasedOrReleasing) throw error;
}

/** Creates the meta store of a table. @throws InvalidInputError InvalidKeyError */
export function createFaceTheoryIsrMetaStore(config: FaceTheoryIsrMetaStoreConfig): FaceTheoryIsrMetaStore {
  return new FaceTheoryIsrMetaStore(config);
}

/** Maps errors of work with definite outcomes. */
async function mapReadError<T>(name: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw readFailure(name, error);
  }
}

/** Maps errors of work that may have been applied without a reply. */
async function mapWriteError<T>(name: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof TheorydbError ? error : writeFailure(name, [], error);
  }
}
