import { parseDictionary } from './structured.js';

/** The directives of a response for this cache, of one field alone (spec/storable.md, rules 2 and 3). */
export interface Directives {
  /** Arguments by the name in lower case; '' for none. */
  of: Map<string, string>;
  /** The fields may hide directives. */
  malformed: boolean;
  /** They are of CDN-Cache-Control or Surrogate-Control, beside which Expires does not count. */
  targeted: boolean;
}

/** The longest lifetime, stale window and age, in seconds: ten years. */
export const maxSeconds = 315_360_000;

/** A quoted string (RFC 9110, section 5.6.4). */
const quoted = /"(?:\\[\s\S]|[^"\\])*"/y;
const quotedStrings = new RegExp(quoted.source, 'g');

/** Returns the directives of the field that governs a response (RFC 9213, section 2.2). */
export function directivesOf(headers: Headers): Directives {
  const targeted = targetedOf(headers.get('cdn-cache-control') ?? '');
  if (targeted && targeted.size > 0) return { of: targeted, malformed: false, targeted: true };
  const surrogate = surrogateOf(headers.get('surrogate-control') ?? '');
  if (surrogate.malformed || surrogate.of.has('max-age') || surrogate.of.has('no-store')) return surrogate;
  const common = cacheControlOf(headers.get('cache-control') ?? '');
  return { ...common, malformed: common.malformed || (targeted === undefined && common.of.size === 0) };
}

/** Parses Cache-Control (RFC 9111, section 5.2). */
export function cacheControlOf(line: string): Directives {
  return { of: argumentsOf(membersOf(line)), malformed: !isWellQuoted(line), targeted: false };
}

/** Returns the arguments of directives. The first of repeated directives counts. */
function argumentsOf(members: readonly string[]): Map<string, string> {
  const of = new Map<string, string>();
  for (const member of members) {
    const at = member.indexOf('=');
    const name = trim(at < 0 ? member : member.slice(0, at)).toLowerCase();
    const argument = at < 0 ? '' : trim(member.slice(at + 1)).replace(/^"+|"+$/g, '');
    if (name !== '' && !of.has(name)) of.set(name, argument);
  }
  return of;
}

/** Parses CDN-Cache-Control (RFC 9213, section 2.1); undefined if it is no dictionary. */
function targetedOf(line: string): Map<string, string> | undefined {
  const members = parseDictionary(line);
  if (!members) return undefined;
  const of = new Map<string, string>();
  for (const [name, value] of members) {
    if (value !== false) of.set(name, typeof value === 'number' ? String(value) : '');
  }
  return of;
}

/** Parses Surrogate-Control (W3C note "Edge Architecture Specification", section 2.2). */
function surrogateOf(line: string): Directives {
  const own: string[] = [];
  const all: string[] = [];
  for (const member of membersOf(line)) {
    const end = member.lastIndexOf(';');
    if (end <= member.lastIndexOf('"')) all.push(member);
    else if (trim(member.slice(end + 1)).toLowerCase() === 'isr') own.push(member.slice(0, end));
  }
  const members = [...own, ...all];
  const isClosed = !line.replace(quotedStrings, '').includes('"'); // a semicolon may be part of a quoted string
  const d = { of: argumentsOf(members), malformed: !isClosed || !members.every(isWellQuoted), targeted: true };
  const lifetime = d.of.get('max-age') ?? '';
  const plus = lifetime.indexOf('+');
  if (plus < 0) return d;
  d.of.set('max-age', trim(lifetime.slice(0, plus)));
  for (const name of ['stale-while-revalidate', 'stale-if-error']) {
    if (!d.of.has(name)) d.of.set(name, trim(lifetime.slice(plus + 1)));
  }
  return d;
}

/** Returns the argument of a directive in seconds: 0 if it is no number, undefined if there is no such directive. */
export function secondsOf(d: Directives, name: string): number | undefined {
  const text = d.of.get(name);
  if (text === undefined) return undefined;
  return /^[0-9]+$/.test(text) ? Math.min(Number(text), maxSeconds) : 0;
}

/** Returns the members of a list field (RFC 9110, section 5.6.1). Quoted strings are not split. */
export function membersOf(line: string): string[] {
  const members = line.match(/(?:"(?:\\[\s\S]|[^"\\])*(?:"|\\?$)|[^,"])+/g) ?? [];
  return members.map(trim).filter((member) => member !== '');
}

/** Removes white space (RFC 9110, section 5.6.3) around a text. */
export function trim(text: string): string {
  return text.replace(/^[ \t]+/, '').replace(/[ \t]+$/, '');
}

/**
 * Reports whether each quoted string of a list is closed, and the whole argument of a directive. Others may hide
 * directives: what follows them may be a directive for one reader and not for another.
 */
function isWellQuoted(line: string): boolean {
  let isArgued = false; // the directive has had a quoted string
  let last = ''; // the last character but white space
  for (let at = 0; at < line.length; at++) {
    const c = line.charAt(at);
    if (c === ' ' || c === '\t') continue;
    if (c === ',') {
      isArgued = false;
    } else if (isArgued) {
      return false;
    } else if (c === '"') {
      quoted.lastIndex = at;
      if (last !== '=' || !quoted.test(line)) return false;
      isArgued = true;
      at = quoted.lastIndex - 1;
    }
    last = c;
  }
  return true;
}
