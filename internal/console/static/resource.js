// Loading what a view shows, with everything that can go wrong.
import { html, useCallback, useEffect, useRef, useState } from './dom.js';

const slowAfter = 2_000; // ms until a view shows that the server is slow
const pollEvery = 5_000; // ms between loads of what the event stream does not have

// useResource loads a value, and again when one of deps or of news changes, or reload is called.
// While a newer value loads, or if that fails, the earlier one of the same deps stays.
export function useResource(load, deps, news = []) {
  const [state, set] = useState({ loading: true });
  const [round, again] = useState(0);
  const reload = useCallback(() => again((n) => n + 1), []);
  const identity = JSON.stringify(deps);
  const shown = useRef(identity);
  useEffect(() => {
    const stop = new AbortController();
    const same = shown.current === identity;
    shown.current = identity;
    set((was) => (same ? { ...was, loading: true, slow: false } : { loading: true }));
    const slow = setTimeout(() => set((was) => ({ ...was, slow: true })), slowAfter);
    const settle = (next) => {
      clearTimeout(slow);
      if (!stop.signal.aborted) set((was) => ({ ...was, ...next, loading: false, slow: false }));
    };
    load(stop.signal).then(
      (data) => settle({ data, problem: undefined, at: Date.now() }),
      (problem) => settle({ problem }),
    );
    return () => { clearTimeout(slow); stop.abort(); };
  }, [identity, round, ...news]);
  return { ...state, reload };
}

// usePolled is useResource that loads again every few seconds while the tab is visible.
// A slow answer is waited for.
export function usePolled(load, deps, news) {
  const resource = useResource(load, deps, news);
  const loading = useRef();
  loading.current = resource.loading;
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden && !loading.current) resource.reload(); }, pollEvery);
    return () => clearInterval(timer);
  }, []);
  return resource;
}

// A Resource shows a value once it is there: before, a skeleton; instead, what went wrong.
export function Resource({ of, rows = 4, children }) {
  const note = of.problem && html`<${Failure} problem=${of.problem} retry=${of.reload} kept=${of.data !== undefined} at=${of.at} />`;
  if (of.data === undefined) return note || html`<${Skeleton} rows=${rows} slow=${of.slow} />`;
  return html`${note}${children(of.data)}`;
}

// A Skeleton stands where content will be.
export function Skeleton({ rows = 4, slow = false }) {
  return html`<div class="skeleton" aria-busy="true">
    <p role="status" class=${slow ? 'slow' : 'quiet'}>${slow ? 'Still waiting: the server or its store is slow.' : 'Loading…'}</p>
    ${Array.from({ length: rows }, (_, i) => html`<div key=${i} class="bone" aria-hidden="true"></div>`)}
  </div>`;
}

// A Failure shows what went wrong and what to do, and tries again.
export function Failure({ problem, retry, kept = false, at }) {
  return html`<div class="failure" role="alert">
    <p><strong>${problem.code === 'timeout' ? 'Too slow: ' : 'Failed: '}</strong>${problem.message}.${problem.hint ? ` ${sentence(problem.hint)}` : ''}</p>
    ${kept && html`<p class="quiet">The data below is from ${new Date(at).toLocaleTimeString()}.</p>`}
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

// sentence makes a hint of the API one.
export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
