// Rejected generations: why, what differs, and publishing or dropping them.
import { html, useState } from '../dom.js';
import { get, lines, post } from '../api.js';
import { Confirm } from '../confirm.js';
import { bytes, command, generation } from '../format.js';
import { useLive } from '../live.js';
import { Ago, Empty, PageName } from '../parts.js';
import { Resource, useResource } from '../resource.js';
import { pageAddress } from '../router.js';
import { ChangeButton } from './actions.js';
import { DiffView } from './diff.js';

const most = 500; // rows

export function Quarantine({ canChange }) {
  const { happenings } = useLive();
  const newest = happenings.find((one) => one.kind === 'quarantine')?.id;
  const [change, ask] = useState(null);
  const list = useResource(async (signal) => {
    const all = [];
    for await (const batch of lines('/-/quarantine', {}, { signal })) {
      all.push(...batch);
      if (all.length >= most) break;
    }
    return all.slice(0, most);
  }, [], [newest]);
  return html`<div class="title"><h1>Quarantine</h1></div>
    <${Resource} of=${list} rows=${4}>${(all) => (all.length === 0 ? html`<${Empty} title="No generation is in quarantine.">
        <p>A route can reject suspicious renderings, such as one that is much smaller than the current page, or lacks a text that every page has. Visitors then keep the current page, and the rejected one waits here for a week.</p>
        <p>In the configuration file, for a route:</p>
        <pre><code>${'reject:\n  smaller_than: 50%\n  without: ["</html>"]'}</code></pre><//>`
    : html`<p class="quiet">Visitors get the current generation of these pages; the rejected one is kept for a week.</p>
      <ul class="list cards">${all.map((one) => html`<${Rejected} key=${`${one.tenant} ${one.key}`} one=${one} canChange=${canChange} ask=${(next) => ask({ ...next, done: list.reload })} />`)}</ul>
      ${all.length === most && html`<p class="quiet">More are in quarantine: <code>isr quarantine</code> lists all.</p>`}`)}<//>
    ${change && html`<${Confirm} change=${change} close=${() => ask(null)} />`}`;
}

function Rejected({ one, canChange, ask }) {
  const [open, show] = useState(false);
  const target = { key: one.key, tenant: one.tenant || undefined };
  const of = [one.key, one.tenant && '--tenant', one.tenant];
  const accept = () => ask({
    title: 'Publish the rejected generation', verb: 'Publish', line: command('quarantine', 'accept', one.key, one.generation_id, one.tenant && '--tenant', one.tenant),
    effect: html`<p>The rejected generation becomes current on all servers within one poll of the log. Its age counts from its rendering, so it may be regenerated soon.</p>`,
    run: () => post('/-/quarantine/accept', { ...target, generation: one.generation_id }),
  });
  const drop = () => ask({
    title: 'Drop the rejected generation', verb: 'Drop', danger: true, line: command('quarantine', 'drop', ...of),
    effect: html`<p>The rejected generation is deleted. Visitors keep the current one, which is regenerated as usual.</p>`,
    run: () => post('/-/quarantine/drop', target),
  });
  return html`<li>
    <p><${PageName} page=${one} to=${pageAddress(one)} /></p>
    <p class="error">${one.reason}</p>
    <p class="quiet">rejected <${Ago} time=${one.rejected_at} /> · status ${one.status} · ${bytes(one.body_bytes)} · ${one.route} · <code title=${one.generation_id}>${generation(one.generation_id)}</code></p>
    <div class="actions">
      <button type="button" aria-expanded=${open} onClick=${() => show(!open)}>${open ? 'Hide the difference' : 'Compare with the current'}</button>
      <${ChangeButton} canChange=${canChange} act=${accept}>Publish<//>
      <${ChangeButton} canChange=${canChange} act=${drop}>Drop<//>
    </div>
    ${open && html`<${Compared} target=${target} line=${command('quarantine', 'diff', ...of)} />`}
  </li>`;
}

function Compared({ target, line }) {
  const diff = useResource((signal) => get('/-/quarantine/diff', target, { signal }), [target.key, target.tenant]);
  return html`<${Resource} of=${diff} rows=${5}>${(data) => html`<${DiffView} diff=${data} target=${target} left=${data.from.generation_id} right="quarantined" line=${line} />`}<//>`;
}
