// Parses and explains Cache-Status (RFC 9211). This module does not use the DOM; its
// tests are in ../cachestatus.test.mjs.

// parse parses the header value, a structured-field list (RFC 8941), into
// [{cache, params}], the cache closest to the origin first. It throws a SyntaxError for
// an invalid list.
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
    m = skip(/[A-Za-z*][\w!#$%&'*+.^`|~:\/-]*/y) ?? fail('expected a value');
    return m[0];
  }
  function params() {
    const out = {};
    while (skip(/ *; */y)) {
      const key = (skip(/[a-z*][a-z0-9_.*-]*/y) ?? fail('expected a parameter'))[0];
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
    skip(/,[ \t]*/y) ?? fail('expected a comma');
    if (at === value.length) fail('expected a cache after the comma');
  }
  return list;
}

// ours returns the params of the cache named isr, or undefined.
export function ours(list) {
  return list.findLast((m) => m.cache === 'isr')?.params;
}

const seconds = (n) => `${n} s`;

// duration formats milliseconds.
export const duration = (ms) => (ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms).toLocaleString('en')} ms`);

// Explanations of the detail parameter for responses that were not stored or not served
// from the cache, by cause: the request, the site's response, the cache itself.
const reasons = {
  method: 'only GET and HEAD are served from the cache',
  query: 'the request has a query parameter that was not declared',
  cookie: 'the request carries a cookie that the cache does not know to be harmless',
  authorization: 'the request carries credentials',
  body: 'the request has a body',
  upgrade: 'the request asks for another protocol',
  tenant: 'the request does not identify a tenant',
  'set-cookie': 'the response sets a cookie',
  private: 'the site marks the page as private',
  'no-store': 'the site forbids storing the page',
  'no-cache': 'the site forbids serving the page without revalidation',
  'no-freshness': 'the site does not say how long the page is fresh',
  vary: 'the page varies with a header that was not declared',
  status: 'a response with this status is not stored',
  stream: 'the response is a stream',
  'too-large': 'the response is too large',
  empty: 'the response is empty',
  'render-failed': 'the render failed',
  'back-off': 'a render failed just now, and the next attempt waits (exponential backoff)',
  timeout: 'the render took too long',
  closing: 'the cache is shutting down',
  'store-error': 'the store cannot be reached',
  unpublished: 'the page could not be stored',
};

// because explains params.detail, or quotes it if it is unknown.
function because(params) {
  if (params.detail === undefined) return '';
  return Object.hasOwn(reasons, params.detail) ? `: ${reasons[params.detail]}` : ` (${params.detail})`;
}

// explain explains a response. params are the parameters of its Cache-Status member
// (undefined: no cache), ms is the response time, age its Age in seconds or undefined,
// status its HTTP status. It returns {word, kind, text}: the word for a badge, the
// badge's style, and one or two sentences.
export function explain(params, { ms, age, status }) {
  if (!params) {
    if (status >= 500) return failed({}, { ms, status });
    return { word: 'NO CACHE', kind: 'none', text: `Rendered for you in ${duration(ms)}. There is no cache in front of the site.` };
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
    ? 'The site failed to render a new one, so the cache served the last good copy.'
    : `A new render runs in the background${params.detail === undefined || params.detail === 'stale' ? '' : because(params)}.`;
  return { word: 'STALE', kind: 'stale', text: `${from}${old ? `${old},` : ' It is'} ${past}. ${then}` };
}

function renewed(params, { ms, ttl, status }) {
  const upstream = params['fwd-status'];
  if (upstream >= 500 && status < 500) {
    return { word: 'STALE', kind: 'stale', text: `The site returned ${upstream}. The cache served the last good copy, after ${duration(ms)}.` };
  }
  if (status >= 500) return failed(params, { ms, status });
  const shared = params.collapsed ? ' The render was shared with other requests.' : '';
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
  return { word: 'ERROR', kind: 'error', text: `Status ${status} after ${duration(ms)}${because(params)}. No stored copy could be served.` };
}
