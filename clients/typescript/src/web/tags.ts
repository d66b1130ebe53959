import { parseList } from './structured.js';

/** The longest tag, in bytes. */
const maxTagBytes = 1024;

/** The white space of Unicode, which separates the tags of Surrogate-Key and surrounds the tags of Cache-Tag. */
const space = '[\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
const spaces = new RegExp(`${space}+`);
const around = new RegExp(`^${space}+|${space}+$`, 'g');

/** Bounds of the tags of a page. */
export interface TagBounds {
  /** How many tags a page may have. */
  maxTags: number;
  /** How many bytes they may have together. */
  maxBytes: number;
}

/**
 * Returns the purge tags that a response names (spec/storable.md, rule 11), each once and sorted; undefined if one is
 * invalid, or there are too many: without one of its tags, a purge would miss the page.
 */
export function tagsOf(headers: Headers, { maxTags, maxBytes }: TagBounds): string[] | undefined {
  const [keys, tags, next, groups] = ['surrogate-key', 'cache-tag', 'x-next-cache-tags', 'cache-groups'].map((name) =>
    utf8Of(headers.get(name) ?? ''),
  );
  const strings = parseList(groups ?? '');
  if (keys === undefined || tags === undefined || next === undefined || !strings?.every(isString)) return undefined;
  const all = new Set(
    [
      ...keys.split(spaces).map((tag) => tag.replace(/,+$/, '')), // a comma joins lines
      ...`${tags},${next}`.split(',').map((tag) => tag.replace(around, '')),
    ].filter((tag) => tag !== ''),
  );
  for (const tag of strings) all.add(tag);
  const sized = [...all].map((tag) => ({ tag, bytes: Buffer.from(tag) }));
  const total = sized.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
  if (all.size > maxTags || total > maxBytes || !sized.every(({ tag, bytes }) => isTag(tag, bytes.byteLength))) {
    return undefined;
  }
  return sized.sort((a, b) => Buffer.compare(a.bytes, b.bytes)).map(({ tag }) => tag);
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

function isTag(tag: string, bytes: number): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a tag must not have
  return bytes >= 1 && bytes <= maxTagBytes && !/[\x00-\x1f\x7f]/.test(tag);
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Returns the text of a field value, each character of which is a byte; undefined if the bytes are no UTF-8. */
export function utf8Of(value: string): string | undefined {
  if (/^[ -~]*$/.test(value)) return value;
  try {
    return decoder.decode(Buffer.from(value, 'latin1'));
  } catch {
    return undefined;
  }
}
