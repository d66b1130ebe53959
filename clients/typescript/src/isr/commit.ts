import { InvalidInputError } from '../errors.js';
import type { Content, Entry } from './entry.js';
import type { Commit, Described } from './metastore.js';

/** Extracts the content that the reference's call describes. */
export function contentOf({ htmlPointer, generatedAtMs, revalidateSeconds, etag, ttlUnixSeconds }: Commit): Content {
  return {
    htmlPointer,
    generatedAtMs,
    revalidateSeconds,
    ...(etag === undefined ? {} : { etag }),
    ...(ttlUnixSeconds === undefined ? {} : { ttlUnixSeconds }),
  };
}

/** The members of a commit beyond the reference. */
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
  'build',
  'pinnedUntilMs',
  'assertedAtMs',
  'renderMs',
  'initialAgeSeconds',
] as const satisfies readonly (keyof Described)[];

/** Extracts the metadata of a commit beyond the reference, undefined if there is none. @throws InvalidInputError if contentSha256 or contentLength is missing */
export function describedOf(c: Commit): Described | undefined {
  const present = described.filter((name) => c[name] !== undefined);
  if (present.length === 0 && !c.history) return undefined;
  const { contentSha256, contentLength } = c;
  if (contentSha256 === undefined || contentLength === undefined) {
    throw new InvalidInputError(
      `${[...present, ...(c.history ? ['history'] : [])].join(', ')}: these need contentSha256 and contentLength, by which readers verify the body`,
    );
  }
  return { ...Object.fromEntries(present.map((name) => [name, c[name]])), contentSha256, contentLength };
}

/** Returns the entry as readers see it when it is published with the reference's attributes only. */
export function bareOf(e: Entry): Entry {
  const generatedAtMs = Math.floor(e.generatedAtMs / 1000) * 1000;
  return { ...e, generatedAtMs, foreign: true, version: 0, generationId: '', key: '', purgeSeq: 0, build: 0 };
}
