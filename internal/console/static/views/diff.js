// What differs between two generations: as text, or both rendered side by side.
import { html, useState } from '../dom.js';
import { get } from '../api.js';
import { bytes, generation } from '../format.js';
import { Command, Empty, Table } from '../parts.js';
import { Resource, useResource } from '../resource.js';
import { address } from '../router.js';

const shownLines = 2000; // of a unified diff

// DiffView shows a difference of the API. left and right are the generations, line the command
// that shows the same.
export function DiffView({ diff, target, left, right, line }) {
  const [rendered, show] = useState(false);
  return html`
    <div class="segments" role="group" aria-label="How to compare">
      <button type="button" aria-pressed=${!rendered} onClick=${() => show(false)}>Text</button>
      <button type="button" aria-pressed=${rendered} onClick=${() => show(true)}>Rendered</button>
    </div>
    ${rendered ? html`<div class="side-by-side">
        <${Rendering} target=${target} id=${left} /><${Rendering} target=${target} id=${right} />
      </div><p class="quiet">Rendered without scripts, and without anything that the page would load: styles and pictures from elsewhere are missing.</p>`
    : html`<${TextDiff} diff=${diff} />`}
    <${Command} line=${line} />`;
}

function TextDiff({ diff }) {
  const lines = (diff.body ?? '').split('\n');
  if (diff.fields.length === 0 && !diff.body && !diff.note) return html`<${Empty} title="The generations are equal." />`;
  return html`
    ${diff.fields.length > 0 && html`<${Table} caption="Attributes and header fields that differ" head=${[['Name'], ['Before', 'wide'], ['After', 'wide']]}>
      ${diff.fields.map((field) => html`<tr key=${field.name}><th scope="row"><code>${field.name}</code></th>
        <td class="break">${field.from ? html`<del>${field.from.slice(0, 2000)}</del>` : html`<span class="quiet">absent</span>`}</td>
        <td class="break">${field.to ? html`<ins>${field.to.slice(0, 2000)}</ins>` : html`<span class="quiet">absent</span>`}</td></tr>`)}
    <//>`}
    ${diff.note && html`<p class="quiet">${diff.note}</p>`}
    ${diff.body && html`<pre class="diff" tabindex="0" aria-label="Difference of the bodies">${lines.slice(0, shownLines).map((text, i) => html`<span key=${i} class=${i < 2 && /^(---|\+\+\+) /.test(text) ? 'place' : kind(text)}>${text.slice(0, 4000)}${'\n'}</span>`)}</pre>`}
    ${lines.length > shownLines && html`<p class="quiet">${lines.length - shownLines} more lines: the command below shows all.</p>`}`;
}

const kind = (line) => ({ '+': 'added', '-': 'removed', '@': 'place' }[line[0]] ?? '');

// A Rendering is a stored page in a frame that may do nothing: no scripts, no requests, an
// origin of its own. What is no HTML is shown as text.
export function Rendering({ target, id }) {
  const body = useResource((signal) => get('/-/body', { ...target, generation: id }, { signal }), [target.key, target.tenant, id]);
  const name = id === 'quarantined' ? 'the rejected one' : generation(id);
  return html`<figure class="rendering"><figcaption>${name}</figcaption>
    <${Resource} of=${body} rows=${5}>${(data) => (/^text\/html\b/i.test(data.content_type)
      ? html`<iframe sandbox="" referrerpolicy="no-referrer" loading="lazy" title=${`Generation ${name}, rendered`} src=${address('/-/document', { key: target.key, tenant: target.tenant, generation: id })}></iframe>`
      : data.binary ? html`<${Empty} title=${`${data.content_type || 'No content type'}, ${bytes(data.body_bytes)}`} />`
      : html`<pre class="source" tabindex="0">${data.text}</pre>`)}<//>
  </figure>`;
}
