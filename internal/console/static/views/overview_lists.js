// The lists of the overview: reasons, failing and slow pages, origins, leases, cost, events.
import { html, useState } from '../dom.js';
import { get, post } from '../api.js';
import { Confirm } from '../confirm.js';
import { command, count, duration, percent, short } from '../format.js';
import { useLive } from '../live.js';
import { Ago, Badge, Empty, Facts, Moment, PageName, Panel, Table } from '../parts.js';
import { Resource, usePolled } from '../resource.js';
import { Link, pageAddress } from '../router.js';
import { ChangeButton } from './actions.js';

const shown = 8; // rows of a list

// Meaning is the meaning of a reason, and what to change.
const Meaning = ({ of }) => of && html`${of.meaning}${of.advice && html`<br />→ ${of.advice}`}`;

// Reasons lists why requests were not plain hits.
export function Reasons({ totals, details, sites }) {
  const all = Object.entries(totals.reasons ?? {}).sort((a, b) => b[1] - a[1]);
  return html`<${Panel} title="Non-hits by reason">
    ${all.length === 0 ? html`<${Empty} title="All requests were plain hits, or there were none." />` : html`
      <${Table} caption="Reasons of the last hour" head=${[['Reason'], ['Requests', 'number'], ['Share', 'number'], ['Meaning', 'wide']]}>
        ${all.slice(0, 12).map(([reason, n]) => html`<tr key=${reason}><th scope="row"><code>${reason}</code></th><td class="number">${count(n)}</td><td class="number">${percent(n, totals.requests)}</td><td class="quiet"><${Meaning} of=${details[reason]} /></td></tr>`)}
      <//>
      ${sites?.length > 0 && html`<p class="quiet">What the site sends, and what to change: <code>isr doctor --url ${sites[0]}/</code></p>`}`}
  <//>`;
}

// Failing lists pages whose last render failed.
export function Failing({ pages }) {
  return html`<${Panel} title="Failing pages" aside=${pages.length > 0 && html`<${Badge} state="failing" /> ${count(pages.length)}`}>
    ${pages.length === 0 ? html`<${Empty} title="No page is failing."><p class="quiet">Pages whose latest render failed are listed here, with the error.</p><//>` : html`
      <ul class="list">${pages.slice(0, shown).map((page) => html`<li key=${page.key}>
        <${PageName} page=${page} to=${pageAddress(page)} />
        <p><code>${page.reason || page.outcome}</code> <span class="quiet">${page.count === 1 ? 'once' : `${count(page.count)} times, last`} <${Ago} time=${page.last_at} /></span></p>
        ${page.error && html`<p class="error">${page.error.slice(0, 300)}</p>`}
      </li>`)}</ul>
      ${pages.length > shown && html`<p><${Link} to="/pages?state=failing">All ${count(pages.length)}<//></p>`}`}
  <//>`;
}

// Slow lists pages with their renders, or with their requests.
export function Slow({ pages, title, requests, hint }) {
  const head = requests ? [['Page'], ['Requests', 'number'], ['Renders', 'number']] : [['Page'], ['Mean', 'number'], ['Max', 'number'], ['Renders', 'number']];
  return html`<${Panel} title=${title} aside=${html`<${Link} to=${`/pages?sort=${requests ? '-requests' : '-render'}`}>All<//>`}>
    ${pages.length === 0 ? html`<${Empty} title="No pages yet."><p class="quiet">${hint}</p><//>` : html`
      <${Table} caption=${title} head=${head}>
        ${pages.slice(0, shown).map((page) => html`<tr key=${`${page.tenant} ${page.key}`}>
          <th scope="row"><${PageName} page=${page} to=${pageAddress(page)} /></th>
          ${requests ? html`<td class="number">${short(page.requests)}</td>` : html`<td class="number">${duration(page.render_ms_mean)}</td><td class="number">${duration(page.render_ms_max)}</td>`}
          <td class="number">${count(page.renders)}</td>
        </tr>`)}
      <//>`}
  <//>`;
}

// maintenance returns the change that begins or ends maintenance mode, for Confirm.
const maintenance = (on, done) => ({
  done, title: on ? 'Begin maintenance mode' : 'End maintenance mode', verb: on ? 'Begin' : 'End', danger: on, line: command('maintenance', on ? 'on' : 'off'),
  effect: on
    ? html`<p>This server does not call its origins any more, also after a restart. Visitors get stored pages, and for all else the maintenance page with 503.</p>`
    : html`<p>Requests reach the origins again, and stale pages are regenerated.</p>`,
  run: () => post('/-/maintenance', { on }),
});

// Maintenance shows maintenance mode, with its switch.
function Maintenance({ canChange }) {
  const mode = usePolled((signal) => get('/-/maintenance', {}, { signal }), []);
  const [change, ask] = useState(null);
  const now = mode.data;
  if (!now) return null;
  return html`<p>${now.on ? html`<strong>Maintenance mode is on</strong>${now.configured ? ', by the configuration file' : ''}. ` : ''}
    ${!now.configured && html`<${ChangeButton} canChange=${canChange} act=${() => ask(maintenance(!now.on, mode.reload))}>${now.on ? 'End maintenance mode' : 'Begin maintenance mode'}<//>`}</p>
    ${change && html`<${Confirm} change=${change} close=${() => ask(null)} />`}`;
}

// Origins shows the sites behind the cache, and their circuit breakers.
export function Origins({ canChange }) {
  const origins = usePolled((signal) => get('/-/origins', {}, { signal }), []);
  return html`<${Panel} title="Origins"><${Maintenance} canChange=${canChange} /><${Resource} of=${origins} rows=${2}>${(data) => (data.origins.length === 0
    ? html`<${Empty} title="No origin."><p class="quiet">The pages are rendered in the process of the server.</p><//>`
    : html`<ul class="list">${data.origins.map((origin) => html`<li key=${origin.name}>
        <p><strong>${origin.name}</strong> <${Badge} state=${origin.breaker === 'closed' ? 'ok' : 'breaker_open'} />
          <span class="quiet">${count(origin.in_flight)} in flight, ${count(origin.waiting)} waiting</span></p>
        ${origin.breaker !== 'closed' && html`<p class="error">The circuit breaker is ${origin.breaker}: renders fail at once, and visitors get stored pages.${origin.open_until ? html` Next attempt <${Moment} time=${origin.open_until} />.` : ''}</p>`}
        ${(origin.addresses ?? []).map((one) => html`<p key=${one.url} class="quiet"><code>${one.url}</code> ${one.healthy ? 'healthy' : html`<span class="error">${one.problem || 'not healthy'}</span>`}</p>`)}
      </li>`)}</ul>`)}<//><//>`;
}

// Leases shows which pages are rendered now, and by which server.
export function Leases({ held }) {
  const leases = usePolled((signal) => get('/-/leases', {}, { signal }), [], [held]);
  return html`<${Panel} title="Leases held now"><${Resource} of=${leases} rows=${2}>${({ holding, known }) => {
    const own = new Set(holding.map(({ key }) => key));
    const others = known.filter(({ key }) => !own.has(key));
    if (holding.length + others.length === 0) return html`<${Empty} title="No page is being rendered."><p class="quiet">While a page is rendered, its server holds a lease, so that no other renders it too.</p><//>`;
    return html`<ul class="list">
      ${holding.slice(0, shown).map((lease) => html`<li key=${lease.key}><${PageName} page=${lease} to=${pageAddress(lease)} /><p class="quiet">this server, since <${Moment} time=${lease.since} /></p></li>`)}
      ${others.slice(0, shown).map((lease) => html`<li key=${lease.pk}><${PageName} page=${lease} to=${pageAddress(lease)} /><p class="quiet">${lease.owner}, until <${Moment} time=${lease.until} /></p></li>`)}
    </ul>`;
  }}<//><//>`;
}

// Cost is what the cache costs, and what it saves.
export function Cost({ overview: { cost, hour } }) {
  return html`<${Panel} title="Cost">
    <${Facts} of=${[
      ['Rendering, last hour', `${duration(cost.render_seconds_hour * 1000)} of the origin's time`],
      ['Saved, estimated', `${duration(cost.render_seconds_saved_hour * 1000)} (hits × mean render time)`],
      ['Renders', `${count(hour.renders)} for ${count(hour.requests)} requests`],
      ['DynamoDB, last hour', `${short(cost.read_units_hour)} read and ${short(cost.write_units_hour)} write units`],
      ['DynamoDB, since start', `${short(cost.read_units_total)} read and ${short(cost.write_units_total)} write units`],
    ]} />
    <p class="quiet">${cost.embedded ? 'The embedded store costs nothing: these are the units that a table on AWS would have consumed.' : html`<code>isr usage</code> shows the units by operation, and their price.`}</p>
  <//>`;
}

// Happenings lists the events since the console was opened, and shortly before.
export function Happenings() {
  const { happenings } = useLive();
  return html`<${Panel} title="Events">
    ${happenings.length === 0 ? html`<${Empty} title="No events yet."><p class="quiet">Purges, failures, reloads and changes by operators appear here at once.</p><//>` : html`
      <ol class="list feed" aria-label="Latest first">${happenings.slice(0, 20).map((one) => html`<li key=${one.id}>
        <p><${Moment} time=${one.at} /> <${Badge} state=${one.kind} /> ${one.text}</p>
        ${one.key && html`<${PageName} page=${one} to=${pageAddress(one)} />`}
      </li>`)}</ol>`}
  <//>`;
}
