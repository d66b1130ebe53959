// Purge pages, and see how far purges have reached.
import { html, useState } from '../dom.js';
import { get, lines, post } from '../api.js';
import { Confirm } from '../confirm.js';
import { command, count } from '../format.js';
import { useLive } from '../live.js';
import { Ago, Badge, Empty, Panel, Table } from '../parts.js';
import { Resource, usePolled, useResource } from '../resource.js';
import { ChangeButton } from './actions.js';

const shown = 200; // deliveries

export function Purges({ canChange }) {
  const { happenings } = useLive();
  const newest = happenings.find((one) => one.kind === 'purge' || one.kind === 'applied')?.id;
  const [change, ask] = useState(null);
  const purges = usePolled((signal) => get('/-/purges', {}, { signal }), [], [newest]);
  const outbox = useResource(async (signal) => {
    const all = [];
    for await (const batch of lines('/-/outbox', {}, { signal, timeout: 30_000 })) {
      all.push(...batch);
      if (all.length >= shown) break;
    }
    return all;
  }, [], [newest]);
  const done = () => { purges.reload(); outbox.reload(); };
  return html`<div class="title"><h1>Purges</h1></div>
    <${Compose} canChange=${canChange} ask=${(next) => ask({ ...next, done })} />
    <${Panel} title="Purges of the last hour" wide><${Resource} of=${purges} rows=${4}>${(data) => html`<${Reach} data=${data} />`}<//><//>
    <${Panel} title="Pending deliveries to downstream caches" wide><${Resource} of=${outbox} rows=${2}>${(all) => html`<${Deliveries} all=${all} canChange=${canChange} ask=${(next) => ask({ ...next, done })} />`}<//><//>
    ${change && html`<${Confirm} change=${change} close=${() => ask(null)} />`}`;
}

const kinds = {
  tag: { title: 'Tag', hint: 'product-7', flags: (value) => ['--tag', value] },
  url: { title: 'URL', hint: 'https://example.com/news', flags: (value) => [value] },
  prefix: { title: 'Prefix', hint: 'example.com/blog/', flags: (value) => ['--prefix', value] },
  host: { title: 'Host', hint: 'example.com', flags: (value) => ['--host', value] },
  tenant: { title: 'Tenant', hint: 'acme', flags: (value) => ['--tenant', value, '--all-of-tenant'] },
  all: { title: 'All pages', flags: () => ['--all'] },
};

// ofTenant are the kinds that can be limited to a tenant.
const ofTenant = ['tag', 'url', 'prefix', 'host'];

// Compose makes a purge: it first counts what the purge covers, then asks.
function Compose({ canChange, ask }) {
  const [kind, pick] = useState('tag');
  const [value, type] = useState('');
  const [of, limit] = useState('');
  const [hard, harden] = useState(false);
  const [state, set] = useState({});
  const mode = hard ? 'hard' : 'soft';
  const text = value.trim();
  const tenant = (ofTenant.includes(kind) && of.trim()) || undefined;
  const targets = [kind === 'all' ? { all: true } : { [kind]: text }];

  const prepare = async (event) => {
    event.preventDefault();
    if (!canChange || state.busy) return;
    set({ busy: true });
    try {
      const { dry_run: would, warnings } = await post('/-/purge', { targets, tenant, mode, dry_run: true });
      set({});
      ask({
        title: kind === 'all' ? 'Purge all pages' : `Purge ${kinds[kind].title.toLowerCase()} ${text}${tenant ? ` of tenant ${tenant}` : ''}`,
        verb: hard ? 'Purge hard' : 'Purge', danger: hard || kind === 'all',
        line: command('purge', ...kinds[kind].flags(text), tenant && '--tenant', tenant, hard && '--hard', '--wait'),
        effect: html`<p><strong>${count(would.pages)} of ${count(would.stored)} stored pages</strong> ${hard ? 'are never served again: the next visitor of each waits for a new rendering.' : 'become stale: visitors still get them at once, while they are regenerated one by one.'} Pages that are being rendered now are covered, too.</p>
          ${would.examples.length > 0 && html`<ul class="examples">${would.examples.map((key) => html`<li key=${key}><code>${key.slice(0, 200)}</code></li>`)}</ul>`}
          ${(warnings ?? []).map((warning) => html`<p key=${warning} class="error">${warning}</p>`)}`,
        run: async () => set({ purged: await post('/-/purge', { targets, tenant, mode, wait: true }) }),
      });
    } catch (problem) {
      set({ problem });
    }
  };
  return html`<form class="filters compose" onSubmit=${prepare} aria-label="New purge">
    <label>Purge<select value=${kind} onChange=${(event) => pick(event.target.value)}>${Object.entries(kinds).map(([name, { title }]) => html`<option key=${name} value=${name}>${title}</option>`)}</select></label>
    ${kind !== 'all' && html`<label class="grow">${kinds[kind].title}<input value=${value} onInput=${(event) => type(event.target.value)} placeholder=${kinds[kind].hint} required maxlength="2000" spellcheck=${false} /></label>`}
    ${ofTenant.includes(kind) && html`<label>Tenant<input value=${of} onInput=${(event) => limit(event.target.value)} placeholder="on a site with tenants" maxlength="300" spellcheck=${false} /></label>`}
    <label class="check"><input type="checkbox" checked=${hard} onChange=${(event) => harden(event.target.checked)} />Hard: never serve the old pages</label>
    <button type="submit" disabled=${!canChange} aria-describedby=${canChange ? undefined : 'readonly'} aria-disabled=${Boolean(state.busy)}>${state.busy ? 'Counting…' : 'Purge…'}</button>
    ${state.problem && html`<div class="failure" role="alert"><p><strong>Failed: </strong>${state.problem.message}. ${state.problem.hint}</p></div>`}
    ${state.purged && html`<p role="status" class="done">${reached(state.purged)}</p>`}
  </form>`;
}

function reached({ seq, waited }) {
  if (!waited || waited.problem) return `Purged as change ${seq}. ${waited?.problem ?? ''}`;
  if (waited.missing.length === 0) return `Purged as change ${seq}: it holds on ${waited.servers <= 1 ? 'the only server' : `all ${count(waited.servers)} servers`}, after ${count(waited.took_ms)} ms.`;
  return `Purged as change ${seq}; not yet reported by ${waited.missing.map(({ name, id }) => name || id).join(', ')}.`;
}

function Reach({ data }) {
  return html`
    ${data.problem && html`<p class="error">${data.problem}</p>`}
    ${data.purges.length === 0 ? html`<${Empty} title="No purge in the last hour."><p>Purge a tag above, from a CMS by a webhook, or from a terminal:</p><pre><code>isr purge --tag product-7 --wait</code></pre><//>` : html`
      <${Table} caption="Purges and other changes, latest first" head=${[['No.', 'number'], ['Time'], ['Targets', 'wide'], ['Mode'], ['Servers'], ['Downstream caches']]}>
        ${data.purges.map((purge) => html`<tr key=${purge.seq}>
          <td class="number">${purge.seq}</td><td>${purge.at ? html`<${Ago} time=${purge.at} />` : '–'}</td>
          <td class="break">${purge.targets.slice(0, 8).join(', ').slice(0, 500)}${purge.target_count > 8 ? ` and ${purge.target_count - 8} more` : ''}${purge.kind === 'pages' ? html` <span class="quiet">(single pages)</span>` : ''}</td>
          <td><${Badge} state=${purge.hard ? 'hard' : 'soft'} /></td>
          <td>${purge.reached} of ${purge.servers}${purge.missing?.length > 0 && html` <span class="error">missing: ${purge.missing.slice(0, 8).join(', ')}</span>`}</td>
          <td>${(purge.destinations ?? []).join(', ') || '–'}${purge.pending?.length > 0 && html` <span class="error">${purge.pending.length} pending</span>`}</td>
        </tr>`)}
      <//>`}
    ${data.truncated && html`<p class="quiet">Older purges are not shown.</p>`}`;
}

function Deliveries({ all, canChange, ask }) {
  if (all.length === 0) return html`<${Empty} title="No delivery is pending."><p class="quiet">Purges for CDNs and other downstream caches are listed here until they are delivered.</p><//>`;
  const retry = (id) => ({ title: `Deliver ${id} now`, verb: 'Deliver', line: command('outbox', 'retry', id), effect: html`<p>The purge is delivered at once, and the backoff of its destination ends.</p>`, run: () => post('/-/outbox/retry', { id }) });
  const drop = (id) => ({ title: `Drop ${id}`, verb: 'Drop', danger: true, line: command('outbox', 'drop', id), effect: html`<p>The purge is never delivered: the downstream cache keeps its copies until they expire.</p>`, run: () => post('/-/outbox/drop', { id }) });
  return html`<${Table} caption="Deliveries, failed ones first" head=${[['Job'], ['State'], ['Targets', 'wide'], ['Age'], ['Failed', 'number'], ['Change']]}>
    ${all.map((job) => html`<tr key=${job.id}>
      <th scope="row">${job.id}</th><td><${Badge} state=${job.state} /></td>
      <td class="break">${job.targets.slice(0, 8).join(', ').slice(0, 300)}${job.reason && html`<br /><span class="error">${job.reason}</span>`}</td>
      <td><${Ago} time=${job.created_at} /></td><td class="number">${job.attempts}</td>
      <td class="nowrap"><${ChangeButton} canChange=${canChange} act=${() => ask(retry(job.id))}>Deliver<//> <${ChangeButton} canChange=${canChange} act=${() => ask(drop(job.id))}>Drop<//></td>
    </tr>`)}
  <//>`;
}
