// The changes by operators, on this server since its start.
import { html } from '../dom.js';
import { get } from '../api.js';
import { count, duration } from '../format.js';
import { useLive } from '../live.js';
import { Badge, Empty, Moment, Table } from '../parts.js';
import { Resource, useResource } from '../resource.js';
import { address, go } from '../router.js';

export function Audit({ query, canChange }) {
  const target = query.get('target') ?? '';
  const { happenings } = useLive();
  const newest = happenings.find((one) => one.kind === 'change')?.id;
  const audit = useResource((signal) => (canChange ? get('/-/audit', { limit: 200, target }, { signal }) : Promise.resolve(null)), [target, canChange], [newest]);
  const search = (event) => {
    event.preventDefault();
    go(address('/audit', { target: new FormData(event.target).get('target').trim() }));
  };
  return html`<div class="title"><h1>Audit</h1></div>
    <form class="filters" role="search" aria-label="Audit" onSubmit=${search}><label class="grow">Target<input type="search" name="target" defaultValue=${target} placeholder="the key of a page" spellcheck=${false} /></label><button type="submit">Show</button></form>
    <${Resource} of=${audit} rows=${6}>${(data) => (data === null ? html`<${Empty} title="Only the admin token shows the audit."><p>It names the addresses of operators. Sign out, and sign in with the admin token.</p><//>` : html`
      ${data.entries.length === 0 ? html`<${Empty} title=${target ? 'No change of this target is known.' : 'No change yet.'}>
        <p>Every purge, roll back, pin and other change is listed here, with the address that made it, whether it was made here, by a command or through the API.</p><//>`
      : html`<${AuditTable} entries=${data.entries} caption="Changes, latest first" />`}
      <p class="quiet">Changes through this server since <${Moment} time=${data.since} />, at most ${data.kept}; the log of the server has all, as <code>admin change</code>.</p>`)}<//>`;
}

// AuditTable lists changes; brief leaves out the target.
export function AuditTable({ entries, caption, brief }) {
  const head = [['Time'], ['Change'], ...(brief ? [] : [['Target', 'wide']]), ['Result'], ['Took', 'number'], ['From']];
  return html`<${Table} caption=${caption} head=${head}>
    ${entries.map((entry, i) => html`<tr key=${`${entry.at} ${i}`}>
      <td><${Moment} time=${entry.at} /></td>
      <td><code>${entry.action}</code></td>
      ${!brief && html`<td class="break">${entry.target.slice(0, 500)}${entry.pages > 0 && html` <span class="quiet">${count(entry.pages)} ${entry.pages === 1 ? 'page' : 'pages'}</span>`}</td>`}
      <td>${entry.result === 'ok' ? html`<${Badge} state="ok" />` : html`<${Badge} state="failed" /> <code>${entry.result}</code>`}</td>
      <td class="number">${duration(entry.took_ms)}</td>
      <td><span class="nowrap">${entry.remote}</span> <span class="quiet">${[entry.via, entry.role, entry.token].filter(Boolean).join(' · ')}</span></td>
    </tr>`)}
  <//>`;
}
