// The admin API. Failed requests throw a Problem.

const patience = 20_000; // ms until a request that reads is given up

// A Problem says what failed and what to do, as the API did.
export class Problem extends Error {
  constructor({ status = 0, code = 'unreachable', message, hint = '' }) {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

// session tells that the server does not know this browser any more.
export const session = new EventTarget();

async function send(method, path, { query, body, signal, timeout = patience } = {}) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value != null && value !== '') url.searchParams.set(name, String(value));
  }
  const limit = AbortSignal.timeout(timeout);
  let response;
  try {
    response = await fetch(url, {
      method,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: 'no-store',
      credentials: 'same-origin',
      redirect: 'error',
    });
  } catch (err) {
    throw failed(err, signal, timeout);
  }
  if (response.ok) return response;
  const problem = await refusal(response);
  if (response.status === 401 && !path.startsWith('/-/session')) session.dispatchEvent(new Event('ended'));
  throw problem;
}

function failed(err, signal, timeout) {
  if (signal?.aborted) return err;
  if (err.name === 'TimeoutError') {
    return new Problem({
      code: 'timeout', message: `no answer within ${timeout / 1000} seconds`,
      hint: 'The server or its store is slow. Try again, or look at the server with isr doctor.',
    });
  }
  return new Problem({ message: 'the server cannot be reached', hint: 'It may be restarting. Check that isr serve runs, then try again.' });
}

async function refusal(response) {
  const answer = await response.json().catch(() => null);
  return new Problem({
    status: response.status,
    code: answer?.error?.code ?? 'failed',
    message: answer?.error?.message ?? `the server answered ${response.status}`,
    hint: answer?.error?.hint ?? '',
  });
}

// get returns the JSON of an operation.
export async function get(path, query, options = {}) {
  const response = await send('GET', path, { query, ...options });
  return response.json();
}

// post executes a change, or asks what has no place in a URL. It waits as long as the server does: renders can take minutes.
export async function post(path, body, options = {}) {
  const response = await send('POST', path, { body, timeout: 180_000, ...options });
  return response.status === 204 ? null : response.json();
}

// lines yields the lines of a list in batches, as they arrive. A list that ends with an error
// throws it after the lines before.
export async function* lines(path, query, { signal, timeout = 600_000 } = {}) {
  const response = await send('GET', path, { query, signal, timeout });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const whole = (rest + value).split('\n');
      rest = whole.pop();
      yield* parsed(whole);
    }
  } catch (err) {
    throw err instanceof Problem ? err : failed(err, signal, timeout);
  }
  yield* parsed([rest]);
}

// parsed yields the values of lines as one batch. An error among them is thrown after it.
function* parsed(texts) {
  const values = texts.filter(Boolean).map((text) => JSON.parse(text));
  const end = values.findIndex((value) => value.error?.code);
  if (values.length > 0 && end !== 0) yield end < 0 ? values : values.slice(0, end);
  if (end >= 0) throw new Problem(values[end].error);
}
