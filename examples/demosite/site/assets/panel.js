// The panel at the foot of each page. A script cannot read the response headers of its
// own page, so for the page load it shows timings. It reads Cache-Status from the
// requests that it sends itself.
import { duration, explain, ours, parse } from './cachestatus.js';

const maxRows = 8; // requests shown in the table
const maxAsks = 90; // requests after which "Ask every second" stops

const $ = (id) => document.getElementById(id);
const slip = $('slip')?.dataset; // undefined on pages that are not counted

// copy describes the newest copy of this page: its render time (ms since the epoch) and
// its freshness and stale windows (seconds).
let copy;
let often; // the timer of "Ask every second" while it runs

function start() {
  copy = copyOf(slip);
  fillAddresses();
  showLoad();
  $('ask').hidden = false;
  $('ask-once').addEventListener('click', ask);
  $('ask-often').addEventListener('click', toggleOften);
  document.addEventListener('visibilitychange', () => document.hidden && stopOften());
  drawLife();
  setInterval(drawLife, 250);
  lookForCache();
}

function copyOf(data) {
  return { at: Date.parse(data.rendered), count: data.count, fresh: Number(data.fresh), stale: Number(data.stale) };
}

// fillAddresses puts the page's URL into the command lines.
function fillAddresses() {
  for (const el of document.querySelectorAll('[data-origin], [data-host]')) el.textContent = location.origin;
  for (const el of document.querySelectorAll('[data-here]')) {
    const url = location.origin + location.pathname + location.search;
    el.textContent = /[?&]/.test(url) ? `'${url}'` : url;
  }
}

// showLoad explains the page load from the browser's navigation timing.
function showLoad() {
  const nav = performance.getEntriesByType('navigation')[0];
  if (!nav?.responseStart) return;
  const at = performance.timeOrigin + nav.requestStart;
  const ms = nav.responseStart - nav.requestStart;
  const { kind, guess, text } = judge(nav.transferSize > 0, ms, Math.max(0, Math.floor((at - copy.at) / 1000)));
  $('verdict').textContent = text;
  $('slip-link').textContent = `You waited ${duration(ms)}: what just happened?`;
  addRow({
    at, word: 'PAGE LOAD', kind, ms, count: slip.count,
    text: `${guess} A script cannot read the headers of its own page; ask again to see them.`,
  });
}

// judge guesses from timings whether a page came from the cache. It took ms and was
// rendered age seconds before the request.
function judge(transferred, ms, age) {
  const render = Number(slip.delay);
  if (!transferred) {
    return { kind: 'none', guess: 'By its timing: no request.', text: 'The browser showed its own copy of this page without a request.' };
  }
  if (render > 0 && ms >= render * 0.9) {
    const text = `You waited ${duration(ms)}: this page was rendered while you waited.`;
    return copy.fresh > 0
      ? { kind: 'miss', guess: 'By its timing: a MISS.', text }
      : { kind: 'bypass', guess: 'By its timing: a BYPASS, rendered only for you.', text };
  }
  if (render < 100) {
    return { kind: 'none', guess: 'Renders are too fast here to judge by timing.', text: `This page reached you in ${duration(ms)}.` };
  }
  const text = `This page reached you in ${duration(ms)}. It had been rendered ${age} s before you asked.`;
  return age < copy.fresh
    ? { kind: 'hit', guess: 'By its timing: a HIT.', text }
    : { kind: 'stale', guess: 'By its timing: STALE.', text };
}

// lookForCache detects a cache by requesting an asset. Requesting the page would change
// what the visitor observes.
async function lookForCache() {
  const response = await fetch(import.meta.url, { method: 'HEAD', cache: 'no-store' }).catch(() => null);
  if (response) showBare(!cacheOf(response));
}

function showBare(bare) {
  $('bare').hidden = !bare;
}

// cacheOf returns isr's member of the response's Cache-Status, or undefined.
function cacheOf(response) {
  try {
    return ours(parse(response.headers.get('Cache-Status') ?? ''));
  } catch (err) {
    console.warn(err.message);
    return undefined;
  }
}

// ask requests this page again and shows the response.
async function ask() {
  const at = Date.now();
  const from = performance.now();
  $('ask-once').disabled = true;
  try {
    const response = await fetch(location.href, { cache: 'no-store' });
    const ms = performance.now() - from;
    show(response, at, ms, await response.text());
  } catch (err) {
    addRow({ at, word: 'FAILED', kind: 'error', ms: performance.now() - from, text: `No response: ${err.message}.` });
    stopOften();
  } finally {
    $('ask-once').disabled = false;
  }
}

function show(response, at, ms, html) {
  const params = cacheOf(response);
  const age = response.headers.has('Age') ? Number(response.headers.get('Age')) : undefined;
  const explanation = explain(params, { ms, age, status: response.status });
  const got = new DOMParser().parseFromString(html, 'text/html').getElementById('slip')?.dataset;
  if (got && response.ok) copy = copyOf(got);
  drawLife();
  showBare(!params);
  $('verdict').textContent = explanation.text;
  $('said').textContent = `${explanation.word}. ${explanation.text}`;
  addRow({
    at, ms, ...explanation, count: got?.count,
    raw: `${response.status} · Cache-Status: ${response.headers.get('Cache-Status') ?? '(none)'}${age === undefined ? '' : ` · Age: ${age}`}`,
  });
}

function toggleOften() {
  if (often) return stopOften();
  let left = maxAsks;
  let busy = false;
  const tick = async () => {
    if (busy) return;
    if (left-- === 0) return stopOften();
    busy = true;
    await ask();
    busy = false;
  };
  often = setInterval(tick, 1000);
  $('ask-often').setAttribute('aria-pressed', 'true');
  $('ask-often').textContent = 'Stop asking';
  tick();
}

function stopOften() {
  clearInterval(often);
  often = undefined;
  $('ask-often').setAttribute('aria-pressed', 'false');
  $('ask-often').textContent = 'Ask every second';
}

// addRow adds a request at the top of the table.
function addRow({ at, word, kind, ms, count, text, raw }) {
  const row = document.createElement('tr');
  const cell = (content, cls) => {
    const td = row.insertCell();
    if (cls) td.className = cls;
    td.append(content);
    return td;
  };
  const time = document.createElement('time');
  time.dateTime = new Date(at).toISOString();
  time.textContent = time.dateTime.slice(11, 19);
  cell(time);
  const badge = document.createElement('span');
  badge.className = `badge ${kind}`;
  badge.textContent = word;
  cell(badge);
  cell(duration(ms), 'num');
  cell(count ? `no. ${count}` : '', 'num');
  const words = cell(text);
  if (raw) {
    const code = document.createElement('code');
    code.className = 'raw';
    code.textContent = raw;
    words.append(code);
  }
  $('log').prepend(row);
  while ($('log').rows.length > maxRows) $('log').deleteRow(-1);
  $('log-box').hidden = false;
}

// drawLife moves the marker along the life of the newest copy: fresh, stale, too old.
function drawLife() {
  const { at, count, fresh, stale } = copy;
  $('life').hidden = fresh === 0;
  if (fresh === 0) return;
  const age = Math.max(0, (Date.now() - at) / 1000);
  const bar = $('life').querySelector('.bar');
  bar.style.setProperty('--fresh', `${(100 * fresh) / (fresh + stale)}%`);
  bar.style.setProperty('--now', `${Math.min(100, (100 * age) / (fresh + stale))}%`);
  const left = (until) => `${Math.ceil(until - age)} s`;
  let state;
  if (age < fresh) state = `fresh for another ${left(fresh)}; asking now should be a HIT`;
  else if (age < fresh + stale) state = `stale, and may be served for another ${left(fresh + stale)} during regeneration; asking now should be STALE`;
  else state = 'too old to be served; asking now should wait for a render';
  if (!$('bare').hidden) state = `as a cache would see it, ${state.split(';')[0]}`;
  $('life-text').textContent = `Render no. ${count} is ${Math.floor(age)} s old: ${state}.`;
}

if (slip) start();
