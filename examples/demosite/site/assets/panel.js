// The panel at the foot of each page. A script cannot read the headers of the
// page that it runs in, so for that one it shows what can be measured; it reads
// Cache-Status from the requests that it makes itself, when the visitor asks.
import { duration, explain, ours, parse } from './cachestatus.js';

const maxRows = 8; // requests kept in the table
const maxAsks = 90; // requests that "every second" makes before it rests

const $ = (id) => document.getElementById(id);
const slip = $('slip')?.dataset; // absent from pages that are not counted

// copy is the newest copy of this page that we have seen: when it was rendered
// (ms since the epoch) and how long it may be fresh and stale (seconds).
let copy;
let often; // the timer of "every second", while it runs

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

// fillAddresses puts this page's own address into the lines to copy.
function fillAddresses() {
  for (const el of document.querySelectorAll('[data-origin], [data-host]')) el.textContent = location.origin;
  for (const el of document.querySelectorAll('[data-here]')) {
    const url = location.origin + location.pathname + location.search;
    el.textContent = /[?&]/.test(url) ? `'${url}'` : url;
  }
}

// showLoad says how this page itself arrived, from the browser's own timing.
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
    text: `${guess} A script cannot see the headers of its own page; ask again to read them.`,
  });
}

// judge tells by the clock alone where a page came from that took ms and had
// been rendered age seconds before.
function judge(transferred, ms, age) {
  const render = Number(slip.delay);
  if (!transferred) {
    return { kind: 'none', guess: 'By the clock: not asked for.', text: 'The browser showed its own copy of this page, without asking.' };
  }
  if (render > 0 && ms >= render * 0.9) {
    const text = `You waited ${duration(ms)}: this page was rendered while you waited.`;
    return copy.fresh > 0
      ? { kind: 'miss', guess: 'By the clock: a MISS.', text }
      : { kind: 'bypass', guess: 'By the clock: a BYPASS, rendered for you alone.', text };
  }
  if (render < 100) {
    return { kind: 'none', guess: 'Renders are too quick here to judge by the clock.', text: `This page reached you in ${duration(ms)}.` };
  }
  const text = `This page reached you in ${duration(ms)}. It had been rendered ${age} s before you asked.`;
  return age < copy.fresh
    ? { kind: 'hit', guess: 'By the clock: a HIT.', text }
    : { kind: 'stale', guess: 'By the clock: STALE.', text };
}

// lookForCache asks for one asset, not for the page, so that looking changes
// nothing that the visitor observes.
async function lookForCache() {
  const answer = await fetch(import.meta.url, { method: 'HEAD', cache: 'no-store' }).catch(() => null);
  if (answer) showBare(!cacheOf(answer));
}

function showBare(bare) {
  $('bare').hidden = !bare;
}

// cacheOf returns isr's part of the answer's Cache-Status, or undefined.
function cacheOf(answer) {
  try {
    return ours(parse(answer.headers.get('Cache-Status') ?? ''));
  } catch (err) {
    console.warn(err.message);
    return undefined;
  }
}

// ask fetches this page once more and shows what came back.
async function ask() {
  const at = Date.now();
  const from = performance.now();
  $('ask-once').disabled = true;
  try {
    const answer = await fetch(location.href, { cache: 'no-store' });
    const ms = performance.now() - from;
    show(answer, at, ms, await answer.text());
  } catch (err) {
    addRow({ at, word: 'FAILED', kind: 'error', ms: performance.now() - from, text: `No answer: ${err.message}.` });
    stopOften();
  } finally {
    $('ask-once').disabled = false;
  }
}

function show(answer, at, ms, html) {
  const params = cacheOf(answer);
  const age = answer.headers.has('Age') ? Number(answer.headers.get('Age')) : undefined;
  const said = explain(params, { ms, age, status: answer.status });
  const got = new DOMParser().parseFromString(html, 'text/html').getElementById('slip')?.dataset;
  if (got && answer.ok) copy = copyOf(got);
  drawLife();
  showBare(!params);
  $('verdict').textContent = said.text;
  $('said').textContent = `${said.word}. ${said.text}`;
  addRow({
    at, ms, ...said, count: got?.count,
    raw: `${answer.status} · Cache-Status: ${answer.headers.get('Cache-Status') ?? '(none)'}${age === undefined ? '' : ` · Age: ${age}`}`,
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

// addRow puts one request on top of the table.
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

// drawLife moves the marker along the life of the newest copy seen: fresh,
// then stale, then too old.
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
  else if (age < fresh + stale) state = `stale, and may be served for another ${left(fresh + stale)} while a new one is made; asking now should be STALE`;
  else state = 'too old to be served; asking now should wait for a render';
  if (!$('bare').hidden) state = `as a cache would see it, ${state.split(';')[0]}`;
  $('life-text').textContent = `Render no. ${count} is ${Math.floor(age)} s old: ${state}.`;
}

if (slip) start();
