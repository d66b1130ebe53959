// The kept generations of a page on a timeline, and what changed between two of them.
import { html, useState } from '../dom.js';
import { get } from '../api.js';
import { bytes, command, forever, generation, moment, seconds, zero } from '../format.js';
import { Ago, Badge, Command, Empty, Panel } from '../parts.js';
import { Resource, useResource } from '../resource.js';
import { ChangeButton } from './actions.js';
import { DiffView } from './diff.js';

export function Generations({ target, versions, canChange, rollBack }) {
  const kept = versions.filter((version) => version.generation_id);
  const current = kept.find((version) => version.current);
  const [chosen, choose] = useState({});
  const to = known(kept, chosen.to) ?? current?.generation_id;
  const from = known(kept, chosen.from) ?? kept.find((version) => version.generation_id !== to)?.generation_id;
  const of = [target.key, target.tenant && '--tenant', target.tenant];
  return html`<${Panel} title="Generations" wide aside=${kept.length > 0 && `${kept.length} kept`}>
    ${kept.length === 0 ? html`<${Empty} title="No generation is kept." />` : html`
      <${Strip} versions=${kept} />
      <ol class="generations">${kept.map((version, i) => html`<${Generation} key=${version.generation_id} version=${version} before=${kept[i + 1]}
        from=${from} to=${to} choose=${(changes) => choose((was) => ({ ...was, ...changes }))} several=${kept.length > 1}
        act=${!version.current && html`<${ChangeButton} canChange=${canChange} act=${() => rollBack(version.generation_id)} aria-label=${`Roll back to ${generation(version.generation_id)}`}>Roll back<//>`} />`)}</ol>
      <${Command} line=${command('versions', ...of)} />`}
    ${kept.length === 1 && html`<p class="quiet">Older generations are kept by servers started with <code>--history N</code>; then they can be compared and rolled back to.</p>`}
    ${from && to && from !== to && html`<${Compared} target=${target} from=${from} to=${to} />`}
  <//>`;
}

const known = (kept, id) => kept.find((version) => version.generation_id === id)?.generation_id;

// Strip places the generations on a line by their time.
function Strip({ versions }) {
  if (versions.length < 2) return null;
  const times = versions.map((version) => new Date(version.generated_at).getTime());
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const span = Math.max(1, last - first);
  return html`<div class="strip" role="img" aria-label=${`${versions.length} generations in ${seconds(Math.round(span / 1000))}`}>
    ${versions.map((version, i) => html`<i key=${version.generation_id} class=${version.current ? 'current' : ''} style=${{ left: `${100 * (times[i] - first) / span}%` }}></i>`)}
    <span>${moment(new Date(first))}</span><span>${moment(new Date(last))}</span>
  </div>`;
}

function Generation({ version, before, from, to, choose, several, act }) {
  const id = version.generation_id;
  const same = before && before.sha256 && before.sha256 === version.sha256;
  const grown = before ? version.body_bytes - before.body_bytes : 0;
  const name = generation(id);
  return html`<li class=${version.current ? 'current' : ''}>
    ${several && html`<span class="pick">
      <label><input type="radio" name="from" checked=${from === id} onChange=${() => choose({ from: id })} aria-label=${`Compare from ${name}`} />from</label>
      <label><input type="radio" name="to" checked=${to === id} onChange=${() => choose({ to: id })} aria-label=${`Compare to ${name}`} />to</label>
    </span>`}
    <span class="when"><code title=${id}>${name}</code> <span class="quiet"><${Ago} time=${version.generated_at} /></span></span>
    <span class="what">${version.status} · ${bytes(version.body_bytes)}
      ${before && html` <span class="quiet">${same ? 'same content' : `${grown > 0 ? '+' : grown < 0 ? '−' : '±'}${bytes(Math.abs(grown))}`}</span>`}
      ${version.current && html` <${Badge} state="current" />`}
      ${!zero(version.pinned_until) && html` <${Badge} state="pinned" /> <span class="quiet">${forever(version.pinned_until) ? '' : `until ${moment(version.pinned_until)}`}</span>`}
    </span>
    <span class="act">${act}</span>
  </li>`;
}

function Compared({ target, from, to }) {
  const diff = useResource((signal) => get('/-/diff', { ...target, from, to }, { signal }), [target.key, target.tenant, from, to]);
  return html`<section class="compare" aria-label="Difference">
    <h3>From <code>${generation(from)}</code> to <code>${generation(to)}</code></h3>
    <${Resource} of=${diff} rows=${6}>${(data) => html`<${DiffView} diff=${data} target=${target} left=${from} right=${to}
      line=${command('diff', target.key, from, to, target.tenant && '--tenant', target.tenant)} />`}<//>
  </section>`;
}
