/** The worker in TypeScript. It executes the commands of protocol_test.go. */

import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import { DynamoDBClient, GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { createFaceTheoryIsrMetaStore, hashedPartition, LeaseHeldError, TheorydbError } from '@facetheory/tabletheory';
import { createCacheHandler } from '@facetheory/tabletheory/next';

const ddb = new DynamoDBClient({});
const leases = new Map(); // by cache key
const kept = new Map(); // by cache key
let tableName;
let store;
let nextRequest; // returns the cacheHandler of a new request
let handler; // of the latest request

const commands = {
  open(c) {
    tableName = c.table;
    store = createFaceTheoryIsrMetaStore({ ddb, tableName, leaseOwner: c.owner });
    leases.clear();
  },

  // --- Reading ----------------------------------------------------------------

  async read({ key: cacheKey }) {
    const { entry, purge, lock, malformed } = await store.read({ cacheKey });
    return {
      entry: entry && said(entry),
      state: (await store.get({ cacheKey }))?.state,
      cover: { seq: purge.seq, hard_seq: purge.hardSeq, at: purge.atMs / 1000 },
      lock: lock && { owner: lock.owner, expires_at: lock.expiresAtMs / 1000, failures: lock.failures },
      malformed: malformed && { pk: malformed.pk, sk: malformed.sk, attribute: malformed.attribute },
    };
  },
  versions: async ({ key: cacheKey }) => (await store.versions({ cacheKey })).map(said),
  async request({ key: cacheKey, request: idempotencyKey }) {
    const r = await store.request({ cacheKey, idempotencyKey });
    return (
      r && {
        request_hash: r.requestHash,
        status: r.status,
        result_s3_key: r.htmlPointer,
        generation_id: r.generationId,
        in_progress_until: (r.inProgressUntilMs ?? 0) / 1000,
        error: r.failure,
      }
    );
  },
  sequence: async () => (await store.sequence()).seq,
  async changes({ after = 0 }) {
    const changes = await store.changes(after);
    const bad = changes.find((change) => change.malformed);
    if (bad) throw bad.malformed;
    return changes.map(({ seq, reload, marks }) => ({
      seq,
      reload: reload.map((page) => page.key),
      marks: marks.map(marked),
    }));
  },

  // --- Purges -----------------------------------------------------------------

  purge: async ({ targets, hard = false }) => (await store.purge(targets, { hard })).seq,
  marks: async () => (await store.marks()).map(marked),
  async covering({ key: cacheKey, tags }) {
    const { seq, hardSeq, atMs, markLifetimeSeconds } = await store.covering({ cacheKey, tags });
    return { seq, hard_seq: hardSeq, at: atMs / 1000, mark_lifetime: markLifetimeSeconds };
  },

  // --- Next.js ----------------------------------------------------------------

  next_open({ bucket, s3 }) {
    const Handler = createCacheHandler({
      tableName,
      bucket,
      buildId: 'b',
      ddb,
      s3: new S3Client({ endpoint: s3, forcePathStyle: true }),
    });
    nextRequest = () => new Handler({ _requestHeaders: {}, maxMemoryCacheSize: 1 << 20 });
  },
  /** Returns what Next.js is told about a page: it renders the page if it is missing or stale, and calls next_set. */
  async next_get({ key }) {
    handler = nextRequest();
    const answer = await handler.get(key, { kind: 'APP_PAGE' });
    if (!answer) return 'missing';
    return answer.lastModified + 1000 * answer.cacheControl.revalidate < Date.now() ? 'stale' : 'fresh';
  },
  async next_set({ key, tags }) {
    const value = { kind: 'APP_PAGE', html: key, status: 200, headers: { 'x-next-cache-tags': tags.join(',') } };
    await handler.set(key, value, { cacheControl: { revalidate: 600, expire: 3600 } });
  },
  revalidate: ({ tags }) => nextRequest().revalidateTag(tags),

  // --- Leases -----------------------------------------------------------------

  acquire: async (c) => took(c, await store.acquireLease({ ...asked(c), ...claimed(c) })),
  async keep(c) {
    return new Promise((started, failed) => {
      let letGo;
      const work = async (lease, signal) => {
        started(took(c, lease));
        await new Promise((resolve) => {
          letGo = resolve;
          signal.addEventListener('abort', resolve);
        });
      };
      const ended = store.withLease(asked(c), work);
      ended.catch(failed); // has no effect once started was called: only a failed acquisition rejects
      kept.set(c.key, { ended, letGo: () => letGo() });
    });
  },
  await_loss: ({ key }) => kept.get(key).ended,
  async let_go({ key }) {
    kept.get(key).letGo();
    await kept.get(key).ended;
  },
  async refresh({ key }) {
    await store.refreshLease(leases.get(key));
  },
  release: ({ key }) => store.releaseLease(leases.get(key)),
  back_off: ({ key, pause_ms }) => store.backOff(leases.get(key), pause_ms),
  break_lease: async ({ key: cacheKey }) => store.breakLease({ cacheKey, record: await store.read({ cacheKey }) }),
  end_request: ({ key, failure }) => store.endRequest(leases.get(key), { failure }),

  // --- Publishing ---------------------------------------------------------------

  async publish({ key, entry, history = false }) {
    const lease = leases.get(key);
    return said(await store.publish(lease, lease.record, next(entry), { history }));
  },
  /** Publishes by the call of the reference documents, which takes only the lease token. */
  async commit({ key: cacheKey, entry }) {
    const { htmlPointer, generatedAtMs, revalidateSeconds, etag } = next(entry);
    const { leaseToken } = leases.get(cacheKey);
    const content = { htmlPointer, generatedAtMs, revalidateSeconds, etag };
    return said(await store.commitGeneration({ cacheKey, leaseToken, ...content }));
  },
  rollback: async (c) => said(await store.rollback({ cacheKey: c.key, to: c.to, ...pinned('pinnedUntilMs', c) })),
  pin: async (c) => said(await store.pin({ cacheKey: c.key, ...pinned('untilMs', c) })),
  unpin: async ({ key: cacheKey }) => said(await store.unpin({ cacheKey })),

  race,
};

// --- The race -------------------------------------------------------------------

async function race(c) {
  const published = [];
  const told = {};
  const count = (error) => {
    if (!(error instanceof TheorydbError)) throw error;
    told[error.code] = (told[error.code] ?? 0) + 1;
  };
  for (let n = 1; Date.now() < c.race.deadline * 1000; n++) {
    try {
      const entry = await raceOnce(c, `${c.owner}-${n}`);
      if (!entry) break;
      published.push({ v: entry.version, generation_id: entry.generationId });
    } catch (error) {
      count(error);
      if (error instanceof LeaseHeldError && Math.random() * 100 < c.race.breaks) {
        await commands.break_lease(c).catch(count);
      }
    }
    await sleep(Math.random() * 60);
  }
  return { published, told };
}

/** Returns the published entry, or undefined if the race is over. */
function raceOnce(c, generationId) {
  return store.withLease(asked(c), async (lease) => {
    if (lease.record.entry.version >= c.race.until_version) return undefined;
    if (c.race.counted) await raiseCount(c.key);
    const generation = { ...next(c.entry), generationId, htmlPointer: `bodies/${generationId}` };
    return store.publish(lease, lease.record, generation);
  });
}

/** Increments the counter in the page's partition with an unconditional read-modify-write. */
async function raiseCount(cacheKey) {
  const Key = { pk: { S: hashedPartition(cacheKey) }, sk: { S: 'TALLY' } };
  const { Item } = await ddb.send(new GetItemCommand({ TableName: tableName, Key, ConsistentRead: true }));
  const count = { N: String(Number(Item.count.N) + 1) };
  await ddb.send(new PutItemCommand({ TableName: tableName, Item: { ...Key, count } }));
}

// --- Values -----------------------------------------------------------------------

function took({ key }, lease) {
  leases.set(key, lease);
  return { expires_at: lease.leaseExpiresAtMs / 1000, failures: lease.failures, purge_seq: lease.purgeSeq };
}

const asked = ({ key, lease_ms }) => ({ cacheKey: key, leaseDurationMs: lease_ms });

const claimed = ({ claim }) => claim && { idempotencyKey: claim.key, inputs: claim.inputs, requestKeepSeconds: 3600 };

const pinned = (name, { pinned_until }) => (pinned_until ? { [name]: pinned_until * 1000 } : {});

/** The members of an entry in this client, and their names in the protocol, which are the attribute names. */
const names = {
  htmlPointer: 's3_key',
  revalidateSeconds: 'revalidate_seconds',
  etag: 'etag',
  ttlUnixSeconds: 'ttl',
  foreign: 'foreign',
  version: 'v',
  generationId: 'generation_id',
  key: 'key',
  route: 'route',
  status: 'status',
  headers: 'headers',
  contentSha256: 'content_sha256',
  contentLength: 'content_length',
  tags: 'tags',
  staleSeconds: 'stale_seconds',
  purgeSeq: 'purge_seq',
  renderMs: 'render_ms',
  initialAgeSeconds: 'age_seconds',
};
const moments = { generatedAtMs: 'generated_at', pinnedUntilMs: 'pinned_until', assertedAtMs: 'asserted_at' };

function marked({ kind, tenant, value, seq, hardSeq, atMs }) {
  return { target: { kind, tenant, value }, seq, hard_seq: hardSeq, at: atMs / 1000 };
}

function said(entry) {
  const result = {};
  for (const [name, there] of Object.entries(names)) {
    if (entry[name]) result[there] = entry[name];
  }
  for (const [name, there] of Object.entries(moments)) {
    if (entry[name]) result[there] = Math.floor(entry[name] / 1000);
  }
  if (entry.generatedAtMs % 1000) result.generated_ms = entry.generatedAtMs;
  return result;
}

function next(entry) {
  const result = {};
  for (const [name, there] of Object.entries(names)) {
    if (entry[there] !== undefined) result[name] = entry[there];
  }
  for (const [name, there] of Object.entries(moments)) {
    if (entry[there] !== undefined) result[name] = entry[there] * 1000;
  }
  if (entry.generated_ms) result.generatedAtMs = entry.generated_ms;
  return result;
}

function refusal(error) {
  if (!(error instanceof TheorydbError)) return { error: error.name, message: String(error.stack) };
  const { code, message, owner, failures, until, result, pk, sk, attribute } = error;
  return {
    ...{ error: code, message, owner, failures, until, pk, sk, attribute },
    ...{ expires_at: error.expiresAt, s3_key: result?.s3Key, generation_id: result?.generationId },
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const c = JSON.parse(line);
  let answer;
  try {
    answer = { ok: (await commands[c.do](c)) ?? null };
  } catch (error) {
    answer = refusal(error);
  }
  process.stdout.write(`${JSON.stringify({ id: c.id, ...answer })}\n`);
}
