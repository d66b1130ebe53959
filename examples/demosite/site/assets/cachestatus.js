// Cache-Status (RFC 9211): parsing, and saying in plain words what it says.
// No DOM here; the tests are in ../cachestatus.test.mjs.

// parse reads the header's value, a structured-field list (RFC 8941), into
// [{cache, params}], the cache nearest to the origin first. It throws on a
// value that is no such list.
export function parse(value) {
  let at = 0;
  const skip = (re) => { re.lastIndex = at; const m = re.exec(value); if (m) at = re.lastIndex; return m; };
  const fail = (what) => { throw new SyntaxError(`Cache-Status: ${what} at ${at} in ${JSON.stringify(value)}`); };

  function string() {
    const m = skip(/"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"/y) ?? fail('unclosed string');
    return m[1].replace(/\\(["\\])/g, '$1');
  }
  function item() {
    if (value[at] === '"') return string();
    let m = skip(/-?\d+(?:\.\d+)?/y);
    if (m) return Number(m[0]);
    m = skip(/\?([01])/y);
    if (m) return m[1] === '1';
    m = skip(/[A-Za-z*][\w!#$%&'*+.^`|~:\/-]*/y) ?? fail('want a value');
    return m[0];
  }
  function params() {
    const out = {};
    while (skip(/ *; */y)) {
      const key = (skip(/[a-z*][a-z0-9_.*-]*/y) ?? fail('want a parameter'))[0];
      out[key] = skip(/=/y) ? item() : true;
    }
    return out;
  }

  const list = [];
  skip(/[ \t]*/y);
  while (at < value.length) {
    list.push({ cache: String(item()), params: params() });
    skip(/[ \t]*/y);
    if (at === value.length) break;
    skip(/,[ \t]*/y) ?? fail('want a comma');
    if (at === value.length) fail('want a cache after the comma');
  }
  return list;
}

// ours returns the params of the cache called isr, or undefined.
export function ours(list) {
  return list.findLast((m) => m.cache === 'isr')?.params;
}

const seconds = (n) => `${n} s`;

// duration writes milliseconds for people.
export const duration = (ms) => (ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms).toLocaleString('en')} ms`);

// What isr says by detail when it did not store or did not answer: first of the
// request, then of the site's answer, then of itself.
const reasons = {
  method: 'only GET and HEAD are answered from the store',
  query: 'the request has a query parameter that was not declared',
  cookie: 'the request carries a cookie that the cache does not know to be harmless',
  authorization: 'the request carries credentials',
  body: 'the request has a body',
  upgrade: 'the request asks for another protocol',
  tenant: 'the request does not say whose site it is for',
  'set-cookie': 'the answer sets a cookie',
  private: 'the site calls the page private',
  'no-store': 'the site forbids storing the page',
  'no-cache': 'the site forbids serving the page unasked',
  'no-freshness': 'the site does not say how long the page is fresh',
  vary: 'the page varies with something that was not declared',
  status: 'an answer of this status is not stored',
  stream: 'the answer is a stream',
  'too-large': 'the answer is too large',
  empty: 'the answer is empty',
  'render-failed': 'the render failed',
  'back-off': 'a render failed just now, and the next attempt has to wait',
  timeout: 'the render took too long',
  closing: 'the cache is shutting down',
  'store-error': 'the store cannot be reached',
  unpublished: 'the page could not be stored',
};

// because explains params.detail, or quotes it.
function because(params) {
  if (params.detail === undefined) return '';
  return Object.hasOwn(reasons, params.detail) ? `: ${reasons[params.detail]}` : ` (${params.detail})`;
}

// explain says what a cache did. params are those of its Cache-Status member
// (undefined: no cache), ms is how long the answer took, age its Age in seconds
// or undefined, status its HTTP status. The result is {word, kind, text}: one
// word for a badge, its style, and a sentence or two.
export function explain(params, { ms, age, status }) {
  if (!params) {
    if (status >= 500) return failed({}, { ms, status });
    return { word: 'NO CACHE', kind: 'none', text: `Rendered for you in ${duration(ms)}. No isr is in front.` };
  }
  const ttl = typeof params.ttl === 'number' ? params.ttl : undefined;
  if (params.hit) return hit(params, { ms, age, ttl });
  if (params.fwd === 'stale') return renewed(params, { ms, ttl, status });
  if (['miss', 'uri-miss', 'vary-miss'].includes(params.fwd)) return miss(params, { ms, ttl, status });
  if (params.fwd === 'method') params = { detail: 'method' };
  return {
    word: 'BYPASS', kind: 'bypass',
    text: `Passed straight to the site in ${duration(ms)} and not stored${because(params)}.`,
  };
}

function hit(params, { ms, age, ttl }) {
  const from = `Served from the cache in ${duration(ms)}.`;
  const old = age === undefined ? '' : ` Rendered ${seconds(age)} ago`;
  if (ttl >= 0 && params.detail !== 'stale') {
    return { word: 'HIT', kind: 'hit', text: `${from}${old}${old ? ';' : ' It is'} fresh for ${ttl === 0 ? 'less than a second' : seconds(ttl)} more.` };
  }
  if (ttl === undefined && params.detail === undefined) {
    return { word: 'HIT', kind: 'hit', text: `${from}${old}${old && '.'}` };
  }
  const past = ttl < 0 ? `${seconds(-ttl)} past its freshness` : 'past its freshness';
  const then = params.detail === 'stale-if-error'
    ? 'The site failed to render a new one, so the last good copy stands in.'
    : `A new render runs behind it; nobody waits${params.detail === undefined || params.detail === 'stale' ? '' : because(params)}.`;
  return { word: 'STALE', kind: 'stale', text: `${from}${old ? `${old},` : ' It is'} ${past}. ${then}` };
}

function renewed(params, { ms, ttl, status }) {
  const answer = params['fwd-status'];
  if (answer >= 500 && status < 500) {
    return { word: 'STALE', kind: 'stale', text: `The site answered ${answer}. The last good copy stands in, after ${duration(ms)}.` };
  }
  if (status >= 500) return failed(params, { ms, status });
  const shared = params.collapsed ? ' The render was shared with others who asked.' : '';
  const left = ttl > 0 ? ` Fresh for ${seconds(ttl)}.` : '';
  return { word: 'RENEWED', kind: 'miss', text: `The stored copy was too old to serve, so you waited ${duration(ms)} for a new one.${shared}${left}` };
}

function miss(params, { ms, ttl, status }) {
  if (status >= 500) return failed(params, { ms, status });
  if (params.collapsed) {
    return { word: 'MISS', kind: 'miss', text: `Nothing was stored, but a render was already running: you joined it and waited ${duration(ms)}.` };
  }
  const kept = params.stored
    ? ` It is stored now${ttl > 0 ? `, fresh for ${seconds(ttl)}` : ''}.`
    : ` It was not stored${because(params)}.`;
  return { word: 'MISS', kind: 'miss', text: `Nothing was stored, so it was rendered for you in ${duration(ms)}.${kept}` };
}

function failed(params, { ms, status }) {
  return { word: 'ERROR', kind: 'error', text: `Status ${status} after ${duration(ms)}${because(params)}. No stored copy could stand in.` };
}
