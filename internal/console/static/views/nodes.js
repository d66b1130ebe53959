// The servers of the fleet.
import { html } from '../dom.js';
import { get } from '../api.js';
import { count } from '../format.js';
import { Ago, Badge, Command, Empty, Table } from '../parts.js';
import { Resource, usePolled } from '../resource.js';

export function Nodes() {
  const nodes = usePolled((signal) => get('/-/nodes', {}, { signal }), []);
  return html`<div class="title"><h1>Nodes</h1></div>
    <${Resource} of=${nodes} rows=${3}>${(data) => html`
      ${data.nodes.length === 0 ? html`<${Empty} title="No server has reported yet."><p>Servers report themselves to the store every few seconds.</p><//>` : html`
        <${Differences} nodes=${data.nodes} />
        <${Table} caption="Servers that use this store" head=${[['Server'], ['Version'], ['Configuration'], ['Behind', 'number'], ['Seen'], ['Up since']]}>
          ${data.nodes.map((node) => html`<tr key=${node.id}>
            <th scope="row">${node.name || node.id} ${node.this && html`<${Badge} state="this_one" />`}</th>
            <td><code>${node.version || '–'}</code></td>
            <td><code>${node.config || '–'}</code></td>
            <td class="number">${node.behind > 0 ? html`<span class="error">${count(node.behind)} changes</span>` : '0'}</td>
            <td>${node.seen_at ? html`<${Ago} time=${node.seen_at} />` : '–'}</td>
            <td>${node.since ? html`<${Ago} time=${node.since} />` : '–'}</td>
          </tr>`)}
        <//>`}
      ${data.alone && html`<${Empty} title="No other server uses this store.">
        <p>A fleet shares a DynamoDB table and an S3 bucket; each of its servers is then listed here, with its version and a digest of its configuration.</p>
        <${Command} line="isr serve --table pages --bucket pages-bodies --origin http://127.0.0.1:3000" /><//>`}
      ${!data.alone && html`<p class="quiet">A change of the store is applied by all servers within their poll. <em>Behind</em> counts changes that a server has not yet reported as applied.</p>`}`}<//>`;
}

// Differences says if servers of a fleet disagree.
function Differences({ nodes }) {
  const distinct = (name) => new Set(nodes.map((node) => node[name]).filter(Boolean));
  const notes = [];
  if (distinct('version').size > 1) notes.push(`${distinct('version').size} versions`);
  if (distinct('config').size > 1) notes.push(`${distinct('config').size} configurations`);
  return notes.length > 0 && html`<p class="note" role="note"><strong>The servers have ${notes.join(' and ')}.</strong> Normal during a deployment; otherwise pages depend on which server renders them.</p>`;
}
