// All stored pages: search, filters, order, and a list that holds only what is visible.
import { html, useCallback, useEffect, useRef, useState } from '../dom.js';
import { get } from '../api.js';
import { bytes, count, duration, moment, seconds, short } from '../format.js';
import { Badge, Command, Empty, PageName } from '../parts.js';
import { Failure, Skeleton } from '../resource.js';
import { address, go, pageAddress } from '../router.js';
import { useLive } from '../live.js';
import { VirtualTable } from '../virtual.js';

const chunk = 200; // pages in a request, the most that the API gives
const keptChunks = 25; // of 200 pages, so that long scrolls do not fill the memory
const typing = 250; // ms after the last key until a search
const refreshEvery = 5_000; // ms
const filters = ['q', 'tag', 'route', 'state', 'tenant', 'sort'];
const states = ['fresh', 'stale', 'expired', 'purged', 'withdrawn', 'missing', 'pinned', 'quarantined', 'failing'];
const orders = [['', 'Key'], ['age', 'Newest'], ['-age', 'Oldest'], ['-requests', 'Most requested'], ['-render', 'Slowest render'], ['-size', 'Largest'], ['size', 'Smallest']];

// useSearch loads the chunks of a search as they are shown.
function useSearch(choice) {
  const identity = JSON.stringify(choice);
  const [state, set] = useState({ chunks: new Map() });
  const current = useRef({ identity, wanted: new Set(), loading: new Set() });
  const load = useCallback(async (number) => {
    const mine = current.current;
    if (mine.loading.has(number)) return;
    mine.loading.add(number);
    try {
      const found = await get('/-/pages/search', { ...JSON.parse(mine.identity), offset: number * chunk, limit: chunk });
      if (current.current !== mine) return;
      set((was) => {
        // Offsets count in one reading of the store: chunks of an earlier reading are outdated.
        const chunks = new Map(was.head?.as_of === found.as_of ? was.chunks : []);
        chunks.delete(number);
        chunks.set(number, found.pages);
        for (const old of chunks.keys()) { if (chunks.size <= keptChunks) break; chunks.delete(old); }
        return { head: { ...found, pages: undefined }, chunks, previous: was.head?.as_of === found.as_of ? was.previous : was.chunks };
      });
    } catch (problem) {
      if (current.current === mine) set((was) => ({ ...was, problem }));
    } finally {
      mine.loading.delete(number);
    }
  }, []);
  useEffect(() => {
    current.current = { identity, wanted: new Set([0]), loading: new Set() };
    set((was) => ({ head: was.head, chunks: new Map(), searching: true }));
    load(0);
  }, [identity]);
  const refresh = useCallback(() => {
    set((was) => ({ ...was, problem: undefined }));
    for (const number of current.current.wanted) load(number);
  }, []);
  useEffect(() => {
    const soon = state.head && (!state.head.complete || !state.head.as_of);
    const timer = setTimeout(() => { if (!document.hidden && !state.problem) refresh(); }, soon ? 1000 : refreshEvery);
    return () => clearTimeout(timer);
  }, [state]);
  const seen = (from, to) => {
    const wanted = new Set();
    for (let number = Math.floor(from / chunk); number * chunk < to; number++) wanted.add(number);
    current.current.wanted = wanted.size > 0 ? wanted : new Set([0]);
    if (!state.problem) for (const number of wanted) if (!state.chunks.has(number)) load(number);
  };
  const page = (index) => {
    const number = Math.floor(index / chunk);
    return (state.chunks.get(number) ?? state.previous?.get(number))?.[index % chunk];
  };
  return { ...state, seen, page, refresh };
}

const chosen = (query) => Object.fromEntries(filters.map((name) => [name, query.get(name) ?? '']));

export function Pages({ query }) {
  const choice = chosen(query);
  const found = useSearch(choice);
  const { head } = found;
  const choose = (changes) => go(address('/pages', { ...chosen(new URLSearchParams(location.search)), ...changes }), { replace: true });
  return html`
    <div class="title"><h1>Pages</h1><p class="quiet" role="status">${head ? summary(head) : ''}</p></div>
    <${Filters} choice=${choice} head=${head} choose=${choose} />
    ${found.problem && html`<${Failure} problem=${found.problem} retry=${found.refresh} kept=${Boolean(head)} at=${head?.as_of ?? Date.now()} />`}
    ${head?.problem && html`<p class="note" role="note">The last reading of the store failed: ${head.problem}. The list is of ${moment(head.as_of)}.</p>`}
    ${head?.truncated && html`<p class="note" role="note">The store has more pages than the console lists (250,000). <code>isr ls</code> lists all.</p>`}
    ${content(found, choice)}`;
}

function summary(head) {
  if (!head.as_of) return 'Reading the store…';
  const all = head.matches === head.total ? `${count(head.total)} pages` : `${count(head.matches)} of ${count(head.total)} pages`;
  return `${all}, as of ${head.age_seconds < 2 ? 'now' : `${seconds(head.age_seconds)} ago`}${head.complete ? '' : ', still reading'}`;
}

function content(found, choice) {
  const { head } = found;
  if (!head) return !found.problem && html`<${Skeleton} rows=${10} />`;
  if (head.matches > 0) return html`<${List} found=${found} tenants=${choice.tenant} />`;
  if (!head.as_of || !head.complete) return html`<${Skeleton} rows=${10} slow=${Boolean(head.problem)} />`;
  if (head.total > 0) return html`<${Empty} title="No page matches."><p>Remove a filter, or search for a part of the host or path.</p><//>`;
  return html`<${Nothing} />`;
}

function Nothing() {
  const site = useLive().overview?.sites?.[0] ?? 'http://127.0.0.1:8080';
  return html`<${Empty} title="No page is stored yet.">
    <p>A page is stored when it is first requested, if its response may be cached:</p>
    <${Command} line=${`curl -i ${site}/`} />
    <p class="quiet">If <code>Cache-Status</code> has no <code>stored</code>, its <code>detail</code> is the reason.</p>
  <//>`;
}

function Filters({ choice, head, choose }) {
  const [text, type] = useState({ q: choice.q, tag: choice.tag });
  const timer = useRef();
  useEffect(() => { type({ q: choice.q, tag: choice.tag }); return () => clearTimeout(timer.current); }, [choice.q, choice.tag]);
  const write = (name) => (event) => {
    const next = { ...text, [name]: event.target.value };
    type(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => choose({ q: next.q.trim(), tag: next.tag.trim() }), typing);
  };
  const pick = (name) => (event) => choose({ [name]: event.target.value });
  const routes = Object.keys({ ...head?.routes, ...(choice.route && { [choice.route]: 0 }) }).sort();
  const tenants = Object.keys({ ...head?.tenants, ...(choice.tenant && { [choice.tenant]: 0 }) }).sort();
  const option = (value, n) => html`<option key=${value} value=${value}>${value}${n > 0 ? ` (${short(n)})` : ''}</option>`;
  return html`<form class="filters" role="search" aria-label="Pages" onSubmit=${(event) => event.preventDefault()}>
    <label class="grow">Search<input type="search" value=${text.q} onInput=${write('q')} placeholder="a part of the URL" maxlength="2000" autocomplete="off" spellcheck=${false} /></label>
    <label>Tag<input value=${text.tag} onInput=${write('tag')} placeholder="exact" maxlength="300" autocomplete="off" spellcheck=${false} /></label>
    <label>State<select value=${choice.state} onChange=${pick('state')}><option value="">any</option>${states.map((state) => option(state, head?.states?.[state]))}</select></label>
    <label>Route<select value=${choice.route} onChange=${pick('route')}><option value="">any</option>${routes.map((route) => option(route, head?.routes?.[route]))}</select></label>
    ${tenants.length > 0 && html`<label>Tenant<select value=${choice.tenant} onChange=${pick('tenant')}><option value="">any</option>${tenants.map((tenant) => option(tenant, head?.tenants?.[tenant]))}</select></label>`}
    <label>Order<select value=${choice.sort} onChange=${pick('sort')}>${orders.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select></label>
  </form>`;
}

const columns = [['State', 'state'], ['Page', 'name'], ['Age', 'number age'], ['Requests', 'number requests'], ['Render', 'number render'], ['Size', 'number size']];

function List({ found }) {
  const height = useRowHeight();
  const head = columns.map(([title, kind]) => html`<span key=${title} role="columnheader" class=${kind}>${title}</span>`);
  const row = (index) => {
    const page = found.page(index);
    return page && html`
      <span role="cell" class="state"><${Badge} state=${page.failing ? 'failing' : page.state} />${page.pinned && html` <${Badge} state="pinned" />`}${page.quarantined && html` <${Badge} state="quarantined" />`}</span>
      <span role="cell" class="name"><${PageName} page=${page} to=${pageAddress(page)} /><span class="tags">${page.tenant && `tenant ${page.tenant} · `}${page.route}${page.tags?.length > 0 && ` · ${page.tags.slice(0, 6).join(', ')}${page.tags.length > 6 ? ` and ${page.tags.length - 6} more` : ''}`}</span></span>
      <span role="cell" class="number age">${page.generated_at ? seconds(page.age_seconds) : '–'}</span>
      <span role="cell" class="number requests">${page.requests > 0 ? short(page.requests) : '–'}</span>
      <span role="cell" class="number render">${page.render_ms > 0 ? duration(page.render_ms) : '–'}</span>
      <span role="cell" class="number size">${bytes(page.body_bytes)}</span>`;
  };
  return html`<${VirtualTable} label="Stored pages" head=${head} total=${found.head.matches} height=${height} row=${row} seen=${found.seen} />`;
}

// useRowHeight is the height of a row in px: two lines, and a third on a phone.
function useRowHeight() {
  const narrow = matchMedia('(max-width: 700px)');
  const [is, set] = useState(narrow.matches);
  useEffect(() => {
    const follow = () => set(narrow.matches);
    narrow.addEventListener('change', follow);
    return () => narrow.removeEventListener('change', follow);
  }, []);
  return is ? 72 : 44;
}
