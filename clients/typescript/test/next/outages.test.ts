/** What visitors get, and what becomes of revalidations, while the table does not answer. */

import assert from 'node:assert/strict';

import { wayTo } from '../faults.js';
import { html, make, onStores, page, pageContext } from './processes.js';

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
    const asked = way.made() - made;
    assert.ok(asked === 1 || asked === 2, `${asked} requests: expected those of one look-up`);
    way[end]();
    await Promise.all(visits);
    if (end === 'open') break;
    const later = way.made();
    assert.equal(await process.request().get('/unseen', pageContext), null);
    assert.equal(way.made(), later, 'the probe failed: the circuit stays open for another pause');
  }
  assert.equal(html(await process.request().get('/page', pageContext)), 'one', 'the circuit is closed');
});
