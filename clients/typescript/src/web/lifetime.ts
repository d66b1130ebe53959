import { cacheControlOf, type Directives, maxSeconds, membersOf, secondsOf, trim } from './directives.js';

/** Which responses state a lifetime: all that RFC 9111 lets shared caches use, or `max-age` only beside `public` and no `Expires`. */
export type OptIn = 'explicit' | 'strict';

/** The largest age, in seconds (RFC 9111, section 1.2.2). */
const maxAge = 2 ** 31;
/** The difference between the clocks of an application and of this process that is tolerated, in seconds. */
const clockToleranceSeconds = 120;
/** The longest lifetime that an error may state as if it were a file, and the lifetime of one that states more, in seconds. */
const maxErrorSeconds = 86_400;
const missingFileSeconds = 10;

/**
 * Returns the freshness lifetime that a response states for a shared cache (RFC 9111, section 4.2.1; spec/storable.md, rule
 * 8), in seconds; undefined if it states none. `requestedMs` is when it was requested.
 */
export function lifetimeOf(headers: Headers, d: Directives, optIn: OptIn, requestedMs?: number): number | undefined {
  const shared = secondsOf(d, 's-maxage');
  if (shared !== undefined) return shared;
  const stated = secondsOf(d, 'max-age');
  if (stated !== undefined) return optIn === 'explicit' || d.targeted || d.of.has('public') ? stated : undefined;
  if (d.targeted || optIn === 'strict' || !headers.has('expires')) return undefined;
  return untilExpires(headers, requestedMs);
}

/** Returns the lifetime of an error. One with the lifetime of a file is fresh for a moment only. */
export function lifetimeOfError(headers: Headers, d: Directives, lifetime: number, requestedMs?: number): number {
  if (d.targeted || d.of.has('s-maxage')) return lifetime;
  const common = cacheControlOf(headers.get('cache-control') ?? '');
  const stated =
    secondsOf(common, 'max-age') ?? (headers.has('expires') ? untilExpires(headers, requestedMs) : undefined);
  const isOfFile = common.of.has('immutable') || (stated ?? 0) > maxErrorSeconds;
  return isOfFile ? Math.min(lifetime, missingFileSeconds) : lifetime;
}

/** Returns the seconds from Date, or else the request, to Expires; 0 if one is invalid (RFC 9111, section 5.3). */
function untilExpires(headers: Headers, requestedMs?: number): number {
  const expires = dateOf(headers.get('expires') ?? '');
  const date = headers.has('date') ? dateOf(headers.get('date') ?? '') : requestedMs;
  if (expires === undefined || date === undefined) return 0;
  return Math.min((expires - date) / 1000, maxSeconds);
}

/**
 * Returns the age that a response had when it was requested (RFC 9111, section 4.2.3; spec/storable.md, rule 9), in
 * seconds. Without `requestedMs`, its Date does not count.
 */
export function initialAgeOf(headers: Headers, requestedMs?: number): number {
  const [first = ''] = (headers.get('age') ?? '').split(',', 1);
  const age = /^[0-9]+$/.test(trim(first)) ? Math.min(Number(trim(first)), maxAge) : 0;
  const date = dateOf(headers.get('date') ?? '');
  if (date === undefined || requestedMs === undefined) return age;
  const apparent = Math.floor((requestedMs - date) / 1000);
  return apparent > clockToleranceSeconds ? Math.max(age, Math.min(apparent, maxSeconds)) : age;
}

/**
 * Returns how long a response may be served after its freshness window by one of the directives of RFC 5861, in seconds
 * (spec/storable.md, rule 10). `longest` bounds it, and is the default; 0: what the response states. `isAllowed`: the
 * operator serves stale pages in spite of s-maxage.
 */
export function staleFor(
  d: Directives,
  name: 'stale-while-revalidate' | 'stale-if-error',
  longest: number,
  isAllowed: boolean,
): number {
  if (d.of.has('must-revalidate') || d.of.has('proxy-revalidate')) return 0;
  if (d.of.has('s-maxage') && !isAllowed) return 0;
  const stated = d.of.get(name) === '' ? undefined : secondsOf(d, name); // without an argument, as Nuxt writes it
  if (stated === undefined) return longest;
  return longest > 0 ? Math.min(stated, longest) : stated;
}

const days = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];
const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const time = '(\\d\\d):(\\d\\d):(\\d\\d)';
/** Each format with the positions of the day, the month, the year and the hour in its groups, after the day of the week. */
const formats: readonly (readonly [format: RegExp, day: number, month: number, year: number, hour: number])[] = [
  [new RegExp(`^([a-z]{3}), (\\d\\d) ([a-z]{3}) (\\d{4}) ${time} gmt$`), 2, 3, 4, 5],
  [new RegExp(`^([a-z]{6,9}), (\\d\\d)-([a-z]{3})-(\\d\\d) ${time} gmt$`), 2, 3, 4, 5],
  [new RegExp(`^([a-z]{3}) ([a-z]{3}) ([ 1-3]\\d) ${time} (\\d{4})$`), 3, 2, 7, 4],
];

/**
 * Parses a date in one of the formats of RFC 9110, section 5.6.7, exactly, in any case. Returns epoch milliseconds; undefined
 * if it is none.
 */
export function dateOf(text: string): number | undefined {
  for (const [format, day, month, year, hour] of formats) {
    const found = format.exec(text.toLowerCase());
    if (!found) continue;
    const number = (group: number) => Number(found[group]);
    const named = [number(day), months.indexOf(found[month] ?? ''), fullYear(found[year] ?? '')] as const;
    const date = new Date(0);
    date.setUTCFullYear(named[2], named[1], named[0]);
    const clock = [number(hour), number(hour + 1), number(hour + 2)] as const;
    date.setUTCHours(...clock);
    const weekday = days[date.getUTCDay()] ?? '';
    const isExact =
      named[1] >= 0 &&
      date.getUTCDate() === named[0] &&
      date.getUTCMonth() === named[1] &&
      clock[0] < 24 &&
      clock[1] < 60 &&
      clock[2] < 60;
    const isDay = found[1] === (format === formats[1]?.[0] ? weekday : weekday.slice(0, 3));
    return isExact && isDay ? date.getTime() : undefined;
  }
  return undefined;
}

function fullYear(text: string): number {
  if (text.length === 4) return Number(text);
  return Number(text) < 69 ? 2000 + Number(text) : 1900 + Number(text);
}

/** Reports whether a list field, such as Vary, has no member but some. */
export function hasOnly(line: string | null, allowed: readonly string[]): boolean {
  return membersOf(line ?? '').every((member) => allowed.includes(member.toLowerCase()));
}
