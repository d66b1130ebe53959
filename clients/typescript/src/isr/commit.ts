import { InvalidInputError } from '../errors.js';
import type { Content, Entry } from './entry.js';
import type { Commit, Described } from './metastore.js';

/** What the reference's call says of content. */
export function contentOf({ htmlPointer, generatedAtMs, revalidateSeconds, etag, ttlUnixSeconds }: Commit): Content {
  return {
    htmlPointer,
    generatedAtMs,
    revalidateSeconds,
    ...(etag === undefined ? {} : { etag }),
    ...(ttlUnixSeconds === undefined ? {} : { ttlUnixSeconds }),
  };
}

/** The names of what a commit may say beyond the reference. */
const described = [
  'contentSha256',
  'contentLength',
  'generationId',
  'key',
  'route',
  'status',
  'headers',
  'tags',
  'staleSeconds',
  'purgeSeq',
  'pinnedUntilMs',
  'assertedAtMs',
  'renderMs',
] as const satisfies readonly (keyof Described)[];

/** What a commit says beyond the reference; undefined: nothing. @throws InvalidInputError if the content itself is not described */
export function describedOf(c: Commit): Described | undefined {
  const said = described.filter((name) => c[name] !== undefined);
  if (said.length === 0 && !c.history) return undefined;
  const { contentSha256, contentLength } = c;
  if (contentSha256 === undefined || contentLength === undefined) {
    throw new InvalidInputError(
      `${[...said, ...(c.history ? ['history'] : [])].join(', ')}: expected contentSha256 and contentLength beside, by which readers know the body`,
    );
  }
  return { ...Object.fromEntries(said.map((name) => [name, c[name]])), contentSha256, contentLength };
}

/** An entry as readers find it that is published with the reference's attributes alone. */
export function bareOf(e: Entry): Entry {
  return { ...e, foreign: true, version: 0, generationId: '', key: '', purgeSeq: 0 };
}
