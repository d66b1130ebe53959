// The dialog before a change: what will happen, and the command line that does the same.
import { html, useEffect, useId, useRef, useState } from './dom.js';
import { announce, Command } from './parts.js';
import { Failure } from './resource.js';

// A Dialog is modal: it keeps the focus, ends with Escape, and gives the focus back.
export function Dialog({ title, close, children }) {
  const box = useRef();
  const id = useId();
  useEffect(() => {
    const [shown, before] = [box.current, document.activeElement];
    shown.showModal();
    return () => { shown.close(); before?.focus(); };
  }, []);
  const cancel = (event) => { event.preventDefault(); close(); };
  return html`<dialog ref=${box} aria-labelledby=${id} onCancel=${cancel}>
    <h2 id=${id}>${title}</h2>
    ${children}
  </dialog>`;
}

// Confirm asks before a change and executes it. A change is {title, effect, line, verb, danger,
// run, done}: effect describes what will happen, run executes it, done gets its result. It may have a
// choice {label, options}, pairs of value and title; then line is a function of its value, which
// run gets, and the first option is chosen at first.
export function Confirm({ change, close }) {
  const [state, set] = useState({});
  const [chosen, choose] = useState(change.choice?.options[0][0]);
  const run = async (event) => {
    event.preventDefault();
    if (state.busy) return;
    set({ busy: true });
    try {
      const result = await change.run(chosen);
      announce(`${change.title}: done`);
      close();
      change.done?.(result);
    } catch (problem) {
      set({ problem });
    }
  };
  return html`<${Dialog} title=${change.title} close=${() => !state.busy && close()}>
    <form onSubmit=${run}>
      <div class="effect">${change.effect}</div>
      ${change.choice && html`<p><label>${change.choice.label} <select value=${chosen} onChange=${(event) => choose(event.target.value)}>${change.choice.options.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select></label></p>`}
      <p class="quiet">The same from a terminal:</p>
      <${Command} line=${change.choice ? change.line(chosen) : change.line} />
      ${state.problem && html`<${Failure} problem=${state.problem} />`}
      <div class="buttons">
        <button type="button" onClick=${close} disabled=${state.busy}>Cancel</button>
        <button type="submit" class=${change.danger ? 'danger' : 'primary'} aria-disabled=${Boolean(state.busy)} autofocus>${state.busy ? 'Working…' : change.verb}</button>
      </div>
    </form>
  <//>`;
}
