// Small parts that several views use.
import { html, useEffect, useId, useRef, useState } from './dom.js';
import { ago, moment } from './format.js';
import { Link } from './router.js';

const announcements = new EventTarget();

// announce makes screen readers read a text.
export const announce = (text) => announcements.dispatchEvent(new CustomEvent('say', { detail: text }));

// The Announcer is the live region of the console.
export function Announcer() {
  const [text, say] = useState('');
  useEffect(() => {
    const hear = (event) => say(event.detail);
    announcements.addEventListener('say', hear);
    return () => announcements.removeEventListener('say', hear);
  }, []);
  return html`<div class="quiet-region" role="status" aria-live="polite">${text}</div>`;
}

// A Badge is a state of a page, a server or a delivery, as a word and a colour.
export const Badge = ({ state }) => html`<span class="badge ${/^[a-z_-]+$/.test(state) ? `is-${state}` : ''}">${state.replaceAll('_', ' ')}</span>`;

// A Panel is a part of a view under a heading.
export function Panel({ title, aside, wide, children }) {
  const id = useId();
  return html`<section class="panel ${wide ? 'wide' : ''}" aria-labelledby=${id}>
    <header><h2 id=${id}>${title}</h2>${aside && html`<div class="aside">${aside}</div>`}</header>
    ${children}
  </section>`;
}

// An Empty place shows why it is empty, and what to do.
export const Empty = ({ title, children }) => html`<div class="empty"><p class="lead">${title}</p>${children}</div>`;

// Ago is how long ago a time was; the time itself is its title.
export const Ago = ({ time }) => html`<time datetime=${time} title=${new Date(time).toString()}>${ago(time)}</time>`;

// Moment is a time; how long ago it was is its title.
export const Moment = ({ time }) => html`<time datetime=${time} title=${ago(time)}>${moment(time)}</time>`;

// A Copy button copies text, and confirms it.
export function Copy({ text, label = 'Copy' }) {
  const [copied, set] = useState('');
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    const done = await navigator.clipboard.writeText(text).then(() => 'Copied', () => 'Select and copy it by hand');
    set(done);
    announce(done);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => set(''), 2000);
  };
  return html`<button type="button" class="copy" onClick=${copy} aria-label=${`${label}: ${text.slice(0, 80)}`}>${copied || label}</button>`;
}

// A Command is a command line that does the same.
export const Command = ({ line }) => html`<div class="command"><code tabindex="0" aria-label="Command line">${line}</code><${Copy} text=${line} /></div>`;

// A Page name is a link to its view. A page that has no key has no view.
export const PageName = ({ page, to }) => (page.key
  ? html`<${Link} to=${to} class="key" title=${page.key.slice(0, 2000)}>${page.key}<//>`
  : html`<span class="key quiet" title="The rows of this page do not have its key.">${page.pk ?? '(unknown)'}</span>`);

// A Facts list is pairs of a term and its value; those without a value are left out.
export const Facts = ({ of }) => html`<dl class="facts">${of.filter(([, value]) => value != null && value !== '' && value !== false)
  .map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`;

// A Table scrolls sideways if it must, and has a caption for screen readers.
export const Table = ({ caption, head, children }) => html`<div class="scroll" role="group" aria-label=${caption} tabindex="0">
  <table><caption class="quiet-region">${caption}</caption>
    <thead><tr>${head.map(([title, kind]) => html`<th key=${title} scope="col" class=${kind}>${title}</th>`)}</tr></thead>
    <tbody>${children}</tbody>
  </table>
</div>`;
