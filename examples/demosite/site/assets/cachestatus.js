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

// Why a request went past the store, by the detail of fwd=bypass.
const reasons = {
  cookie: 'the request carries a cookie that the cache does not know to be harmless',
  'set-cookie': 'the answer sets a cookie',
  query: 'the request has a query parameter that was not declared',
  authorization: 'the request carries credentials',
  private: 'the site calls the page private',
  'no-store': 'the site forbids storing the page',
  'not-cacheable': 'the site did not allow the page to be stored',
  method: 'only GET and HEAD are answered from the store',
};

// because explains params.detail, or quotes it.
function because(params) {
  if (params.detail === undefined) return '';
  const known = reasons[String(params.detail).toLowerCase()];
  return known ? `: ${known}` : ` (${params.detail})`;
}

// explain says what a cache did. params are those of its Cache-Status member
// (undefined: no cache), ms is how long the answer took, age its Age in seconds
// or undefined, status its HTTP status. The result is {word, kind, text}: one
// word for a badge, its style, and a sentence or two.
export function explain(params, { ms, age, status }) {
  if (!params) {
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
  const stale = params.detail === 'stale' || (ttl !== undefined && ttl < 0);
  if (!stale) {
    const left = ttl === undefined ? '' : `${old ? ';' : ' It is'} fresh for ${seconds(ttl)} more`;
    return { word: 'HIT', kind: 'hit', text: `${from}${old}${left}${old || left ? '.' : ''}` };
  }
  const past = ttl === undefined || ttl >= 0 ? 'past its freshness' : `${seconds(-ttl)} past its freshness`;
  const also = params.detail === undefined || params.detail === 'stale' ? '' : ` (${params.detail})`;
  return { word: 'STALE', kind: 'stale', text: `${from}${old ? old + ',' : ' It is'} ${past}${also}. A new render runs behind it; nobody waits.` };
}

function renewed(params, { ms, ttl, status }) {
  const answer = params['fwd-status'];
  if (answer >= 500 && status < 500) {
    return { word: 'STALE', kind: 'stale', text: `The site answered ${answer}. The last good copy stands in, after ${duration(ms)}.` };
  }
  if (answer >= 500) return failed(answer, ms);
  const shared = params.collapsed ? ' The render was shared with others who asked.' : '';
  const left = ttl > 0 ? ` Fresh for ${seconds(ttl)}.` : '';
  return { word: 'RENEWED', kind: 'miss', text: `The stored copy was too old to serve, so you waited ${duration(ms)} for a new one.${shared}${left}` };
}

function miss(params, { ms, ttl, status }) {
  if (status >= 500) return failed(status, ms);
  if (params.collapsed) {
    return { word: 'MISS', kind: 'miss', text: `Nothing was stored, but a render was already running: you joined it and waited ${duration(ms)}.` };
  }
  const kept = params.stored
    ? ` It is stored now${ttl > 0 ? `, fresh for ${seconds(ttl)}` : ''}.`
    : ` It was not stored${because(params)}.`;
  return { word: 'MISS', kind: 'miss', text: `Nothing was stored, so it was rendered for you in ${duration(ms)}.${kept}` };
}

function failed(status, ms) {
  return { word: 'ERROR', kind: 'error', text: `The site answered ${status} after ${duration(ms)}, and no stored copy could stand in.` };
}
