/** What visitors get, and what becomes of revalidations, while the table does not answer. */

import assert from 'node:assert/strict';

import { InvalidInputError } from '../../src/errors.js';
import { wayTo } from '../faults.js';
import { storeOn } from '../isr/table.js';
import { firstEngine, html, make, onStores, page, pageContext } from './processes.js';

/** Visitors that come at the same moment. */
const crowd = 40;

onStores('after the pause of an outage one visitor probes, and all others get the fast answer', async (s) => {
  const ddb = s.table.connect({ maxAttempts: 1 });
  const way = wayTo(ddb);
  const process = s.start({ ddb });
  await make(s.start(), '/page', page('one'));
  way.fail();
  await process.request().get('/unseen', pageContext);
  for (const end of ['fail', 'open'] as const) {
    way.hang();
    s.watch.advance(61_000);
    const made = way.made();
    let answered = 0;
    const visits = Array.from({ length: crowd }, (_, i) =>
      process
        .request()
        .get(`/unseen/${i}`, pageContext)
        .finally(() => answered++),
    );
    while (answered < crowd - 1) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(answered, crowd - 1, 'one visitor waits');
    // A look-up makes two requests; one that has failed may still be retried.
    const asked = way.made() - made;
    assert.ok(asked < crowd / 2, `${asked} requests: expected the requests of one look-up`);
    way[end]();
    await Promise.all(visits);
    if (end === 'open') break;
    const later = way.made();
    assert.equal(await process.request().get('/unseen', pageContext), null);
    assert.equal(way.made(), later, 'the probe failed: the circuit stays open for another pause');
  }
  assert.equal(html(await process.request().get('/page', pageContext)), 'one', 'the circuit is closed');
});

const soon = { cacheControl: { revalidate: 60, expire: 3600 } };

onStores('pages seen before are served from memory in an outage, until they expire', async (s) => {
  const ddb = s.table.connect({ maxAttempts: 1 });
  const way = wayTo(ddb);
  const [a, other] = [s.start({ ddb }), s.start()];
  await make(a, '/own', page('one', 'own'));
  await make(other, '/others', page('one', 'others'));
  assert.equal(html(await a.request().get('/others', pageContext)), 'one');
  way.fail();
  for (const key of ['/own', '/others']) {
    const answer = await a.request().get(key, pageContext);
    assert.equal(html(answer), 'one');
    assert.equal(s.verdict(answer), 'fresh');
    assert.equal(answer?.cacheControl?.revalidate, 1, 'a CDN must not keep what others may have revalidated');
  }
  assert.equal(await a.request().get('/unseen', pageContext), null);
  s.watch.advance(61_000);
  const request = a.request();
  assert.equal(s.verdict(await request.get('/own', pageContext)), 'stale', 'it is regenerated here');
  await request.set('/own', page('two', 'own'), soon);
  const next = await a.request().get('/own', pageContext);
  assert.deepEqual([html(next), s.verdict(next)], ['two', 'fresh']);
  // A failed regeneration, for which Next.js passes the old value.
  s.watch.advance(61_000);
  const failing = a.request();
  const shown = await failing.get('/own', pageContext);
  await failing.set('/own', shown?.value ?? null, { cacheControl: { revalidate: 3, expire: 6 } });
  assert.equal(html(await a.request().get('/own', pageContext)), 'two');
  s.watch.advance(3600_000);
  assert.equal(await a.request().get('/own', pageContext), null, 'it has expired');
  way.open();
  s.watch.advance(61_000);
  await make(a, '/own', page('three', 'own'));
  assert.equal(html(await other.request().get('/own', pageContext)), 'three');
});

onStores('a revalidation in an outage applies here at once, and is sent again until it is in the table', async (s) => {
  const ddb = s.table.connect({ maxAttempts: 1 });
  const way = wayTo(ddb);
  const [a, other] = [s.start({ ddb, outageSeconds: 1 }), s.start()];
  for (const name of ['hard', 'soft', 'brief', 'kept']) {
    await make(other, `/${name}`, page('one', name));
    assert.equal(html(await a.request().get(`/${name}`, pageContext)), 'one');
  }
  way.fail();
  await a.request().revalidateTag('hard');
  await a.request().revalidateTag('soft', { expire: 31536000 });
  await a.request().revalidateTag('brief', { expire: 30 });
  const seen = async (name: string) => s.verdict(await a.request().get(`/${name}`, pageContext));
  assert.deepEqual(
    [await seen('hard'), await seen('soft'), await seen('brief'), await seen('kept')],
    ['missing', 'stale', 'stale', 'fresh'],
  );
  s.watch.advance(31_000);
  assert.equal(await seen('brief'), 'missing', 'its time is over');
  const request = a.request();
  await request.get('/hard', pageContext);
  await request.set('/hard', page('two', 'hard'), soon);
  assert.equal(html(await a.request().get('/hard', pageContext)), 'two', 'it is rendered after the revalidation');
  assert.equal(html(await other.request().get('/hard', pageContext)), 'one', 'the others know nothing of it');
  way.open();
  const store = storeOn(s.table);
  while ((await store.changes(0)).length < 3) await new Promise((resolve) => setTimeout(resolve, 20));
  const sent = (await store.changes(0)).flatMap(({ marks }) => marks.map(({ value }) => value));
  assert.deepEqual(sent, ['hard', 'soft', 'brief'], 'in order');
  assert.equal(await other.request().get('/hard', pageContext), null);
});

onStores(
  'a revalidation whose reply is lost is not lost, and one that cannot be kept is an error',
  async (s) => {
    const ddb = s.table.connect({ maxAttempts: 1 });
    const way = wayTo(ddb);
    const a = s.start({ ddb, outageSeconds: 1 });
    await make(a, '/page', page('one', 'last'));
    await assert.rejects(a.request().revalidateTag('x'.repeat(1025)), InvalidInputError);
    way.fail();
    const many = Array.from({ length: 10_000 }, (_, i) => `tag-${i}`);
    await a.request().revalidateTag(many);
    await assert.rejects(
      a.request().revalidateTag('last'),
      /the revalidation of last: .* repeat it once the table answers/,
    );
    assert.equal(html(await a.request().get('/page', pageContext)), 'one', 'it does not apply');
    way.open();
    const store = storeOn(s.table);
    const last = { cacheKey: 'next/build/build-1/other', tags: ['tag-9999'] };
    while ((await store.covering(last)).hardSeq === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  },
  firstEngine,
);
