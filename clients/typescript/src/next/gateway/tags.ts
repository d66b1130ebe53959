import { tagsOf, type Value } from '../contract.js';

/** The tags of this package, which Next.js makes none of: those that it makes of paths have a slash after `_N_T_`. */
export const deploymentTag = '_N_T_:deployment';

/** The tag of pages with more tags than a response names: every revalidation purges them. */
export const manyTag = '_N_T_:many';

/** Returns the tag that is purged together with {@link deploymentTag} when a build is deployed. */
export function buildTag(buildId: string): string {
  return `_N_T_:build:${encodeURIComponent(buildId).slice(0, 900)}`;
}

/** How many bytes the tags of a response may have; servers in front often accept 4 or 8 KiB of headers. */
const maxTagsBytes = 4096;

/** The header of responses that names their tags for `isr serve`, Cloudflare and Akamai. Next.js removes its own. */
export const tagsHeader = 'cache-tag';

/**
 * Returns a tag as it is in a header, and so in purges: Next.js 16 percent-encodes the same characters,
 * and splits tags with commas too.
 */
export function headerTags(tag: string): string[] {
  const encoded = tag.toWellFormed().replace(/[^\t\x20-\x7e]+/g, encodeURIComponent);
  return encoded
    .split(',')
    .map((part) => part.trim().replaceAll('\t', '%09'))
    .filter((part) => part !== '');
}

/** Returns the text of {@link tagsHeader} for the tags of a page; empty if it has none. */
export function headerOf(value: Value): string {
  const tags = [...new Set(tagsOf(value, {}).flatMap(headerTags))];
  const text = tags.join(',');
  return text.length > maxTagsBytes ? manyTag : text;
}

/**
 * Names the tags of a page in its own headers, which Next.js copies into the response. It is the
 * value that Next.js has that changes: a copy would be another value to Next.js and to the
 * handler. A value that has them already stays as it is.
 */
export function addTags(value: Value): string {
  const tags = headerOf(value);
  if (!value || tags === '') return tags;
  const headers = (value['headers'] ?? {}) as Record<string, unknown>;
  const own = Object.keys(headers).find((name) => name.toLowerCase() === tagsHeader) ?? tagsHeader;
  const before = [headers[own] ?? []].flat().join(',');
  if (!`,${before},`.includes(`,${tags},`)) headers[own] = before === '' ? tags : `${before},${tags}`;
  (value as Record<string, unknown>)['headers'] = headers;
  return tags;
}
