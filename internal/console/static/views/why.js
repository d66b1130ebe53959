// Why a page has its key, and what isr would do with a plain request for it.
import { html } from '../dom.js';
import { post } from '../api.js';
import { command } from '../format.js';
import { Badge, Command, Facts, Panel, Table } from '../parts.js';
import { Resource, useResource } from '../resource.js';

export function Why({ target }) {
  const url = `http://${target.key.split('#')[0]}`; // without the variant
  const explained = useResource((signal) => post('/-/explain', { url }, { signal }), [url]);
  return html`<${Panel} title="Cache key">
    <${Resource} of=${explained} rows=${4}>${(data) => html`<${Explained} data=${data} />`}<//>
    <p class="quiet">The same from a terminal, with headers by <code>-H</code>, and the origin asked by <code>--fetch</code>:</p>
    <${Command} line=${command('explain', url)} />
  <//>`;
}

// place is a value of the configuration, and where it is written.
const place = (of) => of?.text && html`<code class="break">${of.text}</code> <span class="quiet">${of.source}</span>`;

function Explained({ data }) {
  return html`
    <p>A plain GET would be a <${Badge} state=${data.verdict.toLowerCase()} />${data.cache_status && html`<code class="break">${data.cache_status}</code>`}</p>
    <ol class="reasons">${data.reasons.slice(0, 20).map((reason, i) => html`<li key=${i}>${reason.text} ${reason.rfc && html`<span class="quiet">${reason.rfc}</span>`}${reason.advice && html`<br /><span class="quiet">→ ${reason.advice}</span>`}</li>`)}</ol>
    <${Facts} of=${[
      ['Listener', place(data.listener)], ['Host', place(data.host)], ['Route', place(data.route)], ['Origin', place(data.origin)],
      ['Tenant', data.tenant && html`<code>${data.tenant}</code>`], ['Variant', data.variant && html`<code class="break">${data.variant}</code>`],
    ]} />
    ${data.parts.length > 0 && html`<${Table} caption="Parts of the request" head=${[['Part'], ['Use'], ['Why', 'wide']]}>
      ${data.parts.slice(0, 100).map((part, i) => html`<tr key=${i}>
        <th scope="row">${part.kind}${part.name && html` <code>${part.name.slice(0, 200)}</code>`}</th>
        <td><${Badge} state=${part.use} /></td>
        <td class="break">${part.value && html`<code>${part.value.slice(0, 500)}</code> `}<span class="quiet">${part.why}</span></td>
      </tr>`)}
    <//>`}`;
}
