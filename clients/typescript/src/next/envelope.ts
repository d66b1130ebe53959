import type { Value } from './contract.js';

/**
 * The body of a cached value, for the bucket:
 *
 *	"FTNEXT1\n"  length of the head, 4 bytes  head, JSON in UTF-8  parts, one after the other
 *
 * The head is `{"value": …, "parts": [length, …]}`. In the value stand for what JSON
 * does not have: `{"$buffer": n}`, the n-th part, for bytes; `{"$map": [[key, value],
 * …]}` for a Map; `{"$object": [[name, value], …]}` for an object with a name that
 * begins with `$`. So whatever Next puts into a value is kept exactly, in this and in
 * later versions of it; members that are undefined are left out. The same value makes
 * the same bytes.
 */

const magic = Buffer.from('FTNEXT1\n', 'latin1');
const preamble = magic.length + 4;

/** A body is no envelope, or one of a later version. */
export class EnvelopeError extends Error {
  override readonly name = 'EnvelopeError';
}

/** The body of a value. */
export function encode(value: Value): Buffer {
  const parts: Uint8Array[] = [];
  const plain = flatten(value, parts);
  const head = Buffer.from(JSON.stringify({ value: plain, parts: parts.map((p) => p.byteLength) }), 'utf8');
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  return Buffer.concat([magic, length, head, ...parts]);
}

function flatten(value: unknown, parts: Uint8Array[]): unknown {
  if (value instanceof Uint8Array) return { $buffer: parts.push(value) - 1 };
  if (Array.isArray(value)) return value.map((member) => flatten(member, parts));
  if (value instanceof Map) return { $map: Array.from(value, ([k, v]) => [flatten(k, parts), flatten(v, parts)]) };
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([name, member]) => [name, flatten(member, parts)] as const);
  return members.some(([name]) => name.startsWith('$')) ? { $object: members } : Object.fromEntries(members);
}

/** The value of a body. Its Buffers share the body's memory. @throws EnvelopeError */
export function decode(body: Uint8Array): Value {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (bytes.length < preamble || !bytes.subarray(0, magic.length).equals(magic)) {
    throw new EnvelopeError('the body does not begin as a cached value of Next.js does');
  }
  const headEnd = preamble + bytes.readUInt32BE(magic.length);
  const head = headOf(bytes.subarray(preamble, headEnd));
  return restore(head.value, cut(bytes, headEnd, head.parts)) as Value;
}

function headOf(bytes: Buffer): { value: unknown; parts: number[] } {
  try {
    const head = JSON.parse(bytes.toString('utf8'));
    if (Array.isArray(head?.parts) && head.parts.every((n: unknown) => Number.isSafeInteger(n) && Number(n) >= 0)) {
      return head;
    }
  } catch {
    // The same as a head that says nothing.
  }
  throw new EnvelopeError('the head of the cached value cannot be read');
}

/** The parts, which end where the body does. */
function cut(bytes: Buffer, from: number, lengths: readonly number[]): Buffer[] {
  let at = from;
  const parts = lengths.map((length) => {
    const part = bytes.subarray(at, at + length);
    at += length;
    return part;
  });
  if (at !== bytes.length) throw new EnvelopeError(`the cached value has ${bytes.length} bytes: expected ${at}`);
  return parts;
}

function restore(plain: unknown, parts: readonly Buffer[]): unknown {
  if (Array.isArray(plain)) return plain.map((member) => restore(member, parts));
  if (typeof plain !== 'object' || plain === null) return plain;
  const { $buffer: n, $map: pairs, $object: members } = plain as Record<string, unknown>;
  if (n !== undefined) return partOf(parts, n);
  if (pairs !== undefined) return new Map(pairsOf(pairs).map(([k, v]) => [restore(k, parts), restore(v, parts)]));
  const named = members === undefined ? Object.entries(plain) : (pairsOf(members) as [string, unknown][]);
  return Object.fromEntries(named.map(([name, member]) => [name, restore(member, parts)]));
}

function partOf(parts: readonly Buffer[], n: unknown): Buffer {
  const part = parts[n as number];
  if (part === undefined) throw new EnvelopeError(`the cached value has no part ${String(n)}`);
  return part;
}

function pairsOf(pairs: unknown): [unknown, unknown][] {
  if (Array.isArray(pairs) && pairs.every((pair) => Array.isArray(pair) && pair.length === 2)) return pairs;
  throw new EnvelopeError('the cached value has a Map or an object that is none');
}
