// The frame of the console: the session, the current view, and whether its figures are live.
import { html, useCallback, useEffect, useRef, useState } from './dom.js';
import { get, post, session } from './api.js';
import { seconds } from './format.js';
import { connect, disconnect, useLive } from './live.js';
import { Announcer, announce } from './parts.js';
import { Failure, Skeleton } from './resource.js';
import { Link, useAddress } from './router.js';
import { Shortcuts, useShortcuts } from './shortcuts.js';
import { Audit } from './views/audit.js';
import { Nodes } from './views/nodes.js';
import { Overview } from './views/overview.js';
import { Page } from './views/page.js';
import { Pages } from './views/pages.js';
import { Purges } from './views/purges.js';
import { Quarantine } from './views/quarantine.js';
import { SignIn } from './views/signin.js';

// The views by their paths; key is the letter after g that goes there.
const views = [
  { path: '/', title: 'Overview', key: 'o', view: Overview },
  { path: '/pages', title: 'Pages', key: 'p', view: Pages },
  { path: '/purges', title: 'Purges', key: 'u', view: Purges },
  { path: '/quarantine', title: 'Quarantine', key: 'q', view: Quarantine },
  { path: '/nodes', title: 'Nodes', key: 'n', view: Nodes },
  { path: '/audit', title: 'Audit', key: 'a', view: Audit },
  { path: '/page', title: 'Page', view: Page },
];

// App asks whether this browser is signed in, and shows the sign-in or the console.
export function App() {
  const [state, set] = useState({});
  const ask = useCallback(() => {
    set({});
    get('/-/session').then((who) => set({ who }), (problem) => set({ problem }));
  }, []);
  useEffect(() => {
    ask();
    const ended = () => set({ who: { signed_in: false, ended: true } });
    session.addEventListener('ended', ended);
    return () => session.removeEventListener('ended', ended);
  }, []);
  if (state.problem) return html`<main class="boot"><h1>isr console</h1><${Failure} problem=${state.problem} retry=${ask} /></main>`;
  if (!state.who) return html`<main class="boot"><h1>isr console</h1><${Skeleton} rows=${3} /></main>`;
  if (!state.who.signed_in) return html`<${SignIn} ended=${state.who.ended} done=${(who) => set({ who })} />`;
  return html`<${Console} who=${state.who} leave=${() => set({ who: { signed_in: false } })} />`;
}

function Console({ who, leave }) {
  const { path, query } = useAddress();
  const main = useRef();
  const first = useRef(true);
  const [help, showHelp] = useState(false);
  const shown = views.find((view) => view.path === path) ?? views[0];

  useEffect(() => { connect(); return disconnect; }, []);
  useEffect(() => {
    document.title = `${shown.title} · isr console`;
    if (first.current) { first.current = false; return; }
    scrollTo(0, 0);
    // A new view, for the keyboard and screen readers, unless it has taken the focus itself.
    if (!main.current.contains(document.activeElement)) main.current.focus({ preventScroll: true });
  }, [shown]);
  useShortcuts(views, () => showHelp(true));

  const signOut = async () => {
    disconnect();
    await post('/-/session/end', {}).catch(() => null);
    leave();
  };
  return html`
    <a class="skip" href="#main">Skip to content</a>
    <header class="top">
      <div class="brand"><strong>isr</strong> <span class="quiet">console</span></div>
      <nav aria-label="Views">${views.filter((view) => view.key).map((view) => html`<${Link} key=${view.path} to=${view.path}
        aria-current=${view === shown || (shown.path === '/page' && view.path === '/pages') ? 'page' : undefined}>${view.title}<//>`)}</nav>
      <div class="tools">
        <${Freshness} />
        <${Theme} />
        <button type="button" class="plain" onClick=${() => showHelp(true)} aria-label="Keyboard shortcuts">?</button>
        <button type="button" class="plain" onClick=${signOut}>Sign out</button>
      </div>
    </header>
    ${who.role === 'read' && html`<p class="readonly" role="note" id="readonly">Read only: this token cannot make changes. To make changes, sign out, and sign in with the admin token.</p>`}
    <main id="main" ref=${main} tabindex="-1" class="view-${shown.title.toLowerCase()}">
      <${shown.view} query=${query} canChange=${who.role === 'admin'} />
    </main>
    <${Announcer} />
    ${help && html`<${Shortcuts} views=${views} close=${() => showHelp(false)} />`}`;
}

// Freshness shows whether the figures are current.
function Freshness() {
  const { state, at } = useLive();
  const [, tick] = useState(0);
  const before = useRef(state);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (before.current !== state && !(before.current === 'connecting' && state === 'live')) announce(`Connection: ${state}`);
    before.current = state;
  }, [state]);
  const age = at ? seconds(Math.round((Date.now() - at) / 1000)) : '';
  const words = {
    connecting: 'connecting…',
    live: 'live',
    polling: 'every 5 s',
    reconnecting: at ? `reconnecting · ${age} old` : 'reconnecting…',
    stale: `stale since ${new Date(at).toLocaleTimeString('en-GB')}`,
  };
  return html`<span class="freshness is-${state}" title="Connection to the server"><i aria-hidden="true"></i>${words[state]}</span>`;
}

// Theme goes through the system's theme, light and dark.
function Theme() {
  const [theme, set] = useState(document.documentElement.dataset.theme ?? 'auto');
  const next = { auto: 'light', light: 'dark', dark: 'auto' }[theme];
  const change = () => {
    if (next === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try { localStorage.setItem('isr-theme', next); } catch { /* storage is blocked: this tab only */ }
    dispatchEvent(new Event('isr-theme'));
    set(next);
    announce(`Theme: ${next}`);
  };
  return html`<button type="button" class="plain" onClick=${change} aria-label=${`Theme: ${theme}; change to ${next}`} title="Theme">${{ auto: '◐', light: '☀', dark: '☾' }[theme]}</button>`;
}
