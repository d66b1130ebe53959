// Keys that do something, and the dialog that lists them.
import { html, useEffect } from './dom.js';
import { Dialog } from './confirm.js';
import { go } from './router.js';

const chord = 1500; // ms between g and the letter of a view

// useShortcuts listens for keys outside of fields and dialogs.
export function useShortcuts(views, help) {
  useEffect(() => {
    let begun = 0;
    const press = (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest?.('input, select, textarea, dialog')) return;
      const view = Date.now() - begun < chord && views.find(({ key }) => key === event.key);
      begun = event.key === 'g' ? Date.now() : 0;
      if (view) go(view.path);
      else if (event.key === '?') help();
      else if (event.key === '/') search();
      else if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1);
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

// search goes to the search field, on the view of the pages if this one has none.
function search() {
  const field = document.querySelector('main input[type=search]');
  if (field) return field.focus();
  go('/pages');
  requestAnimationFrame(() => document.querySelector('main input[type=search]')?.focus());
}

// step goes to the next or previous link of the list.
function step(by) {
  const links = [...document.querySelectorAll('main a.key')];
  if (links.length === 0) return;
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? 0 : Math.min(Math.max(at + by, 0), links.length - 1)].focus();
}

// Shortcuts lists the keys.
export function Shortcuts({ views, close }) {
  const keys = [
    ...views.filter(({ key }) => key).map(({ key, title }) => [`g ${key}`, title]),
    ['/', 'Search pages'], ['j k', 'Next and previous page of a list'], ['Enter', 'Open it'], ['Esc', 'Close a dialog'], ['?', 'This list'],
  ];
  return html`<${Dialog} title="Keyboard shortcuts" close=${close}>
    <dl class="keys">${keys.map(([key, what]) => html`<div key=${key}><dt>${key.split(' ').map((one) => html`<kbd key=${one}>${one}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
    <div class="buttons"><button type="button" class="primary" onClick=${close} autofocus>Close</button></div>
  <//>`;
}
