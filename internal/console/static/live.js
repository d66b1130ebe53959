// The state of the server as it happens: the overview and the happenings, by server-sent
// events; by polling if the server has no stream left.
import { useEffect, useState } from './dom.js';
import { get, session } from './api.js';

const staleAfter = 8_000; // ms without an overview; the server sends one every 2 s
const pollEvery = 5_000; // ms, without a stream
const retryStream = 30_000; // ms until a refused stream is tried again
const keptHappenings = 200;

const changed = new EventTarget();
const tell = () => changed.dispatchEvent(new Event('change'));

// live is what is known. state is connecting, live, polling, reconnecting, stale or ended; since
// is when it began, at when the overview arrived, problem why none can be had.
export const live = { state: 'connecting', since: Date.now(), at: 0, overview: undefined, problem: undefined, happenings: [] };

let source;
let timers = [];

function become(state) {
  if (live.state === state) return;
  live.state = state;
  live.since = Date.now();
  tell();
}

// connect begins to follow the server, while the tab is visible: a browser opens only six
// connections to a host, and each stream takes one from the other tabs.
export function connect() {
  disconnect();
  document.addEventListener('visibilitychange', follow);
  follow();
}

function follow() {
  stop();
  if (document.hidden) return;
  become('connecting');
  timers = [setInterval(watch, 1000)];
  stream();
}

// disconnect ends it. What is known stays.
export function disconnect() {
  document.removeEventListener('visibilitychange', follow);
  stop();
}

function stop() {
  source?.close();
  source = undefined;
  timers.forEach(clearTimeout); // also of intervals
  timers = [];
}

function stream() {
  source?.close();
  source = new EventSource('/-/events');
  source.addEventListener('overview', (event) => {
    take(JSON.parse(event.data));
    become('live');
  });
  source.addEventListener('happening', (event) => {
    const { [0]: newest } = live.happenings;
    const happening = JSON.parse(event.data);
    if (newest && happening.id === newest.id) return;
    live.happenings = [happening, ...live.happenings].slice(0, keptHappenings);
    tell();
  });
  source.addEventListener('end', (event) => {
    if (JSON.parse(event.data).reason === 'session') session.dispatchEvent(new Event('ended'));
  });
  source.addEventListener('error', () => {
    if (source.readyState !== EventSource.CLOSED) return become('reconnecting');
    become('reconnecting'); // refused: poll, which also shows whether the session has ended
    poll();
    timers.push(setTimeout(stream, retryStream));
  });
}

async function poll() {
  if (source?.readyState !== EventSource.CLOSED) return;
  try {
    take(await get('/-/overview'));
    become('polling');
  } catch (problem) {
    live.problem = problem;
    become('reconnecting');
    tell();
  }
  timers.push(setTimeout(poll, pollEvery));
}

function watch() {
  if (live.at && Date.now() - live.at > staleAfter && live.state !== 'stale') become('stale');
}

// take merges an overview: the stream sends only the latest minutes and seconds.
function take(overview) {
  const merged = (name, most) => {
    const all = new Map((live.overview?.[name] ?? []).map((entry) => [entry.at, entry]));
    for (const entry of overview[name] ?? []) all.set(entry.at, entry);
    const oldest = new Date(overview.at).getTime() - most;
    return [...all.values()].filter((entry) => new Date(entry.at).getTime() > oldest).sort((a, b) => (a.at < b.at ? -1 : 1));
  };
  const restarted = live.overview && live.overview.started_at !== overview.started_at;
  if (restarted) live.overview = undefined;
  live.overview = { ...overview, minutes: merged('minutes', 3_600_000), seconds: merged('seconds', 60_000) };
  live.at = Date.now();
  live.problem = undefined;
  tell();
}

// useLive shows a component again when something has changed.
export function useLive() {
  const [, again] = useState(0);
  useEffect(() => {
    const follow = () => again((n) => n + 1);
    changed.addEventListener('change', follow);
    follow();
    return () => changed.removeEventListener('change', follow);
  }, []);
  return live;
}
