/** Holding back the response of an application of `node:http` until work that it causes has ended. */

import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** The fields that may be passed to `writeHead`. */
type Given = OutgoingHttpHeaders | readonly OutgoingHttpHeader[] | undefined;

/**
 * Calls `work` with the status and `fields` of a response before any of it is sent, and sends it when the work has ended.
 * Until then writes are kept, and `write` returns false.
 */
export function delayResponse(
  res: ServerResponse,
  fields: readonly string[],
  work: (status: number, headers: Headers) => Promise<void>,
): void {
  const { writeHead, write, end, flushHeaders } = res;
  let held: (() => void)[] | undefined;
  let hasBegun = false;
  const release = () => {
    const calls = held ?? [];
    held = undefined;
    for (const call of calls) call();
    if (!res.writableEnded && !res.writableNeedDrain) res.emit('drain');
  };
  const begin = (given?: Given) => {
    if (hasBegun) return;
    hasBegun = true;
    held = [];
    work(res.statusCode, headersOf(res, fields, given)).finally(release);
  };
  /** Runs a call that sends something, or keeps it. */
  const send = <T>(kept: T, call: () => T): T => {
    begin();
    if (!held) return call();
    held.push(call);
    return kept;
  };
  res.writeHead = (...args: unknown[]) => {
    Reflect.apply(writeHead, res, args); // sends nothing yet
    begin(args.slice(1).find((arg) => typeof arg === 'object' && arg !== null) as Given);
    return res;
  };
  res.write = (...args: unknown[]) => send(false, () => Reflect.apply(write, res, args));
  res.end = (...args: unknown[]) => send(res, () => Reflect.apply(end, res, args));
  res.flushHeaders = () => send(undefined, () => flushHeaders.call(res));
}

/** Returns some fields of a response. Those that are passed to `writeHead` replace others. */
function headersOf(res: ServerResponse, names: readonly string[], given: Given): Headers {
  const headers = new Headers();
  const pairs = pairsOf(given);
  for (const name of names) {
    const own = pairs.filter(([field]) => field.toLowerCase() === name).map(([, value]) => value);
    for (const value of (own.length > 0 ? own : [res.getHeader(name) ?? []]).flat())
      headers.append(name, String(value));
  }
  return headers;
}

function pairsOf(given: Given): [name: string, value: OutgoingHttpHeader][] {
  if (given === undefined) return [];
  if (!Array.isArray(given)) return Object.entries(given).map(([name, value]) => [name, value ?? []]);
  if (Array.isArray(given[0])) return given as unknown as [string, OutgoingHttpHeader][];
  const pairs: [string, OutgoingHttpHeader][] = [];
  for (let i = 0; i + 1 < given.length; i += 2) pairs.push([String(given[i]), given[i + 1]]);
  return pairs;
}
