// One page: its state, its key, its generations, and everything that can be done with it.
import { html, useState } from '../dom.js';
import { get } from '../api.js';
import { Confirm } from '../confirm.js';
import { bytes, command, count, duration, forever, generation, moment, seconds, webAddress, zero } from '../format.js';
import { Ago, Badge, Command, Copy, Empty, Facts, Moment, Panel, Table } from '../parts.js';
import { Resource, usePolled, useResource } from '../resource.js';
import { go, Link } from '../router.js';
import { Actions, pageChanges } from './actions.js';
import { AuditTable } from './audit.js';
import { Generations } from './generations.js';
import { Why } from './why.js';

export function Page({ query, canChange }) {
  const target = { key: query.get('key') ?? '', tenant: query.get('tenant') ?? '' };
  const identity = [target.key, target.tenant];
  const page = usePolled((signal) => (target.key ? get('/-/page', target, { signal }) : Promise.resolve(null)), identity);
  const versions = useResource((signal) => (target.key ? get('/-/versions', target, { signal }) : Promise.resolve({ versions: [] })), identity, [page.data?.generation_id]);
  const lease = usePolled((signal) => (target.key ? get('/-/lease', target, { signal }) : Promise.resolve(null)), identity);
  const [change, ask] = useState(null);

  if (!target.key) return html`<h1>Page</h1><${OtherPage} /><${Empty} title="No page is chosen."><p>Choose one of the <${Link} to="/pages">stored pages<//>, or paste a key or URL above.</p><//>`;
  const changes = pageChanges(target, () => { page.reload(); versions.reload(); lease.reload(); });
  return html`
    <div class="title page-title"><h1><bdi>${target.key}</bdi></h1><${Copy} text=${target.key} label="Copy key" /></div>
    ${target.tenant && html`<p class="quiet">tenant ${target.tenant}</p>`}
    <${Resource} of=${page} rows=${5}>${(data) => html`
      <${State} page=${data} />
      <${Actions} changes=${changes} page=${data} lease=${lease.data} versions=${versions.data?.versions} canChange=${canChange} ask=${ask} />`}<//>
    <${Resource} of=${versions} rows=${4}>${({ versions: all }) => html`<${Generations} key=${target.key} target=${target} versions=${all} canChange=${canChange} rollBack=${(to) => ask(changes.rollBack(to))} />`}<//>
    <div class="panels">
      <${Panel} title="Lease">
        <${Resource} of=${lease} rows=${1}>${(data) => html`<${LeaseFacts} lease=${data} />`}<//>
        <p class="quiet">From a terminal:</p><${Command} line=${command('lease', target.key, target.tenant && '--tenant', target.tenant)} />
      <//>
      <${Activity} target=${target} />
      <${Resource} of=${page} rows=${3}>${(data) => html`<${Header} header=${data.header} />`}<//>
      <${Why} target=${target} />
    </div>
    ${change && html`<${Confirm} change=${change} close=${() => ask(null)} />`}`;
}

// OtherPage goes to the page of a key or URL.
function OtherPage() {
  const show = (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get('key').trim();
    const url = webAddress(text) && new URL(text);
    if (text) go(`/page?key=${encodeURIComponent(url ? url.host + url.pathname + url.search : text)}`);
  };
  return html`<form class="filters" onSubmit=${show}><label class="grow">Key or URL<input name="key" type="search" spellcheck=${false} /></label><button type="submit">Show</button></form>`;
}

// remaining is when a span of time ends, or how long ago it ended.
const remaining = (s) => (s >= 0 ? `${seconds(s)} left` : `ended ${seconds(-s)} ago`);

function State({ page }) {
  if (page.state === 'missing') {
    return html`<${Empty} title="This page is not stored.">
      <p>It is rendered when it is requested, or now with Regenerate.</p>
      ${page.malformed && html`<p class="error">Its row cannot be used: ${page.malformed}</p>`}
    <//>`;
  }
  const pinned = !zero(page.pinned_until);
  return html`
    <p class="states"><${Badge} state=${page.state} />${pinned && html` <${Badge} state="pinned" />`}${page.written_by_another_service && html` <${Badge} state="foreign" />`} ${stateText(page)}</p>
    ${page.malformed && html`<p class="error">Its row cannot be used: ${page.malformed}</p>`}
    ${page.body_problem && html`<p class="error">Its body cannot be served: ${page.body_problem}</p>`}
    <${Facts} of=${[
      ['Status', page.status],
      ['Rendered', page.generated_at && html`<${Ago} time=${page.generated_at} />`],
      ['Fresh', !pinned && remaining(page.fresh_for_seconds)],
      ['Served stale', !pinned && remaining(page.stale_for_seconds)],
      ['Pinned', pinned && (forever(page.pinned_until) ? 'until it is unpinned' : `until ${moment(page.pinned_until)}`)],
      ['Size', bytes(page.body_bytes)],
      ['Route', page.route],
      ['Tags', page.tags?.length > 0 && html`<span class="tag-list">${page.tags.slice(0, 128).map((tag) => html`<${Link} key=${tag} to=${`/pages?tag=${encodeURIComponent(tag)}`}>${tag}<//> `)}</span>`],
      ['Generation', page.generation_id && html`<code title=${page.generation_id}>${generation(page.generation_id)}</code>`],
      ['ETag', page.etag && html`<code>${page.etag}</code>`],
      ['Kept until', !zero(page.kept_until) && html`<${Moment} time=${page.kept_until} />`],
    ]} />`;
}

function stateText({ state, fresh_for_seconds: fresh }) {
  return {
    fresh: 'Visitors get it from the cache.',
    stale: 'Visitors get it at once; the next request regenerates it in the background.',
    expired: 'Too old to be served: the next request waits for a new rendering.',
    purged: `Purged${fresh > 0 ? ' before its time' : ''}: the next request regenerates it.`,
    withdrawn: 'The origin has withdrawn it: the next request asks the origin.',
  }[state] ?? '';
}

function LeaseFacts({ lease }) {
  if (!lease || lease.state === 'free') return html`<p><${Badge} state="free" /> No server renders this page now${lease?.failures > 0 ? `; the last ${count(lease.failures)} renders failed` : ''}.</p>`;
  return html`<p><${Badge} state=${lease.state} /> ${lease.state === 'held' ? 'A server is rendering this page.' : 'The last render failed; no server tries again before the backoff ends.'}</p>
    <${Facts} of=${[['Holder', lease.owner], ['Ends in', seconds(lease.seconds_left)], ['Failures in a row', lease.failures > 0 && lease.failures]]} />`;
}

// Activity is what this server knows of a page: counts of the last hour, and changes by operators.
function Activity({ target }) {
  const activity = usePolled((signal) => get('/-/page/activity', target, { signal }), [target.key, target.tenant]);
  return html`<${Panel} title="Activity on this server, last hour"><${Resource} of=${activity} rows=${2}>${(data) => html`
    <${Facts} of=${[
      ['Requests', data.requests > 0 ? count(data.requests) : 'none known'],
      ['Renders', count(data.renders)],
      ['Render time', data.renders > 0 && `${duration(data.render_ms_mean)} mean, ${duration(data.render_ms_max)} max`],
    ]} />
    ${data.failing && html`<div class="failure" role="note"><p><strong>Latest render failed:</strong> ${data.failing.error || data.failing.reason || data.failing.outcome}</p></div>`}
    ${data.changes?.length > 0 ? html`<h3>Changes by operators</h3><${AuditTable} entries=${data.changes.slice(0, 8)} caption="Changes of this page" brief />` : html`<p class="quiet">No operator has changed this page since the server started.</p>`}`}<//><//>`;
}

function Header({ header }) {
  const fields = Object.entries(header ?? {}).sort();
  return html`<${Panel} title="Header fields">
    ${fields.length === 0 ? html`<${Empty} title="None are stored." />` : html`<${Table} caption="Header fields that visitors get" head=${[['Name'], ['Value', 'wide']]}>
      ${fields.flatMap(([name, values]) => values.map((value, i) => html`<tr key=${`${name} ${i}`}><th scope="row"><code>${name}</code></th><td class="break">${value.slice(0, 2000)}</td></tr>`))}
    <//>`}
  <//>`;
}
