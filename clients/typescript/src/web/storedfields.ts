import type { Entry, HeaderFields, HeaderValue } from '../isr/entry.js';
import { membersOf } from './directives.js';
import { exactFields, prefixedFields } from './fields.js';
import { dateOf } from './lifetime.js';
import { parseList } from './structured.js';
import { utf8Of } from './tags.js';

/** The longest Cache-Status of caches behind this one that is stored, and the longest opaque tag, in bytes. */
const maxStatusBytes = 1024;
const maxTagBytes = 1024;

const digests: ReadonlySet<string> = new Set(['repr-digest', 'content-digest', 'digest', 'content-md5']);

/** Reports whether a field of a response belongs to one connection, message, client or answer: spec/responses.json. */
function isOfOneAnswer(name: string): boolean {
  return exactFields.has(name) || prefixedFields.some((prefix) => name.startsWith(prefix));
}

/** Returns the fields of a response that are stored (RFC 9111, section 3.1; spec/storable.md, rule 13). */
export function storedFields(headers: Headers): HeaderFields {
  const ofConnection = new Set(membersOf(headers.get('connection') ?? '').map((name) => name.toLowerCase()));
  const isStored = (name: string, value: string): boolean => {
    if (name === 'cache-status') return isStatus(value);
    if (ofConnection.has(name) || (isOfOneAnswer(name) && name !== 'surrogate-control')) return false;
    if (name === 'date') return dateOf(value) !== undefined;
    return !digests.has(name) || !headers.has('content-encoding');
  };
  return Object.fromEntries(
    [...headers]
      .filter(([name, value]) => isStored(name, value))
      .map(([name, value]) => [name, [utf8Of(value) ?? Buffer.from(value, 'latin1')]]),
  );
}

/** Returns whether a Cache-Status can be continued (RFC 9211, section 2). */
function isStatus(value: string): boolean {
  return value !== '' && value.length <= maxStatusBytes && parseList(value) !== undefined;
}

/** Returns the stored fields of an entry. Each character of a value is a byte. */
export function fieldsOf({ headers }: Pick<Entry, 'headers'>): Headers {
  const fields = new Headers();
  for (const [name, values] of Object.entries(headers)) {
    for (const value of values) fields.append(name, bytesOf(value));
  }
  return fields;
}

/** Returns a stored value as a field has it: each character is a byte. */
export function bytesOf(value: HeaderValue): string {
  return Buffer.from(value as string).toString('latin1');
}

/** Returns the fields of an entry that visitors get, whichever program stored them. */
export function replayedFields(entry: Pick<Entry, 'headers'>): Headers {
  const fields = fieldsOf(entry);
  for (const name of [...fields.keys()]) {
    if (isOfOneAnswer(name) && name !== 'cache-status') fields.delete(name);
  }
  return fields;
}

/**
 * Returns the entity tag of a response (RFC 9110, section 8.8.3); undefined if it has none, several, an invalid one, or one of more than
 * 1,024 bytes.
 */
export function etagOf(headers: Headers): string | undefined {
  const etag = headers.get('etag') ?? '';
  const isTag = /^(?:W\/)?"[!#-~\x80-\xff]*"$/.test(etag) && etag.replace(/^W\//, '').length <= maxTagBytes;
  return isTag ? utf8Of(etag) : undefined;
}
