import { headerTags } from './tags.js';

/** What of a site's configuration is part of its public paths. */
export interface PublicPaths {
  /** Such as `/shop`; empty if there is none. */
  readonly basePath: string;
  readonly locales: readonly string[];
  readonly defaultLocale: string | undefined;
}

/** How Next.js begins the tags that it makes of paths. */
const implicit = '_N_T_';

/** The longest tag, in bytes: `isr serve` gives no page a longer one. */
const maxTag = 1024;

/** How many layouts of a path have tags at `isr serve` (gateway.NextTags). */
const maxLayouts = 16;

/**
 * Returns the tags to purge at `isr serve` for a tag that Next.js revalidates. The tags of the
 * program are those that responses name. The tags of paths are also made by the preset `next`, of the
 * public path of each page, payload and data, where Next.js names none: `revalidatePath('/blog')`
 * is the tag of `/shop/blog` with the `basePath` `/shop`, and of `/de/blog` with the locale `de`; a
 * route with parameters is its last layout without any.
 */
export function publicTags(tag: string, of: PublicPaths): string[] {
  const all = headerTags(tag).flatMap((one) => (one.startsWith(`${implicit}/`) ? [one, ...ofPath(one, of)] : [one]));
  return [...new Set(all)].filter((one) => one.length <= maxTag);
}

function ofPath(tag: string, { basePath, locales, defaultLocale }: PublicPaths): string[] {
  const { path, suffix } = literal(tag.slice(implicit.length));
  const [, first = ''] = path.split('/');
  const inside = locales.includes(first)
    ? [path, ...(first === defaultLocale ? [path.slice(first.length + 1)] : [])]
    : [path, ...locales.map((locale) => `/${locale}${path}`)];
  return inside.map((one) => rooted(`${implicit}${basePath}${one}${suffix}`));
}

/** The tag of the path `/` has a slash. */
function rooted(tag: string): string {
  return tag === implicit ? `${implicit}/` : tag;
}

/**
 * Splits the path of a tag: `/blog/[slug]/page` into `/blog` and `/layout`, `/blog/layout` into
 * `/blog` and `/layout`, and `/blog` into `/blog` and nothing. `/` is empty.
 */
function literal(tagPath: string): { path: string; suffix: string } {
  const [, before = tagPath, suffix = ''] = /^(.*)(\/layout|\/page)$/.exec(tagPath) ?? [];
  const segments: string[] = [];
  for (const segment of before.split('/').filter((one) => one !== '')) {
    if (/^\((?!\.)[^)]*\)$|^@/.test(segment)) continue; // route groups and slots are not in the URL
    if (/[[\]]|^\(/.test(segment)) return { path: pathOf(segments), suffix: '/layout' }; // parameters, intercepted routes
    segments.push(segment);
  }
  if (suffix === '/layout') return { path: pathOf(segments), suffix };
  return { path: segments.map((segment) => `/${segment}`).join(''), suffix };
}

function pathOf(segments: readonly string[]): string {
  return segments
    .slice(0, maxLayouts)
    .map((segment) => `/${segment}`)
    .join('');
}
