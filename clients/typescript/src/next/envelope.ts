import type { Value } from './contract.js';

/**
 * The stored format of a cached value:
 *
 *	"FTNEXT1\n"  length of the head, 4 bytes big-endian  head, JSON in UTF-8  parts, concatenated
 *
 * The head is `{"value": …, "parts": [length, …]}`. Types that JSON lacks are encoded as
 * `{"$buffer": n}` for bytes (the n-th part), `{"$map": [[key, value], …]}` for a Map, and
 * `{"$object": [[name, value], …]}` for an object with a name that starts with `$`, and
 * `{"$undefined": true}`. So values of this and later versions of Next.js round-trip exactly.
 * Encoding is deterministic.
 */

const magic = Buffer.from('FTNEXT1\n', 'latin1');
const preamble = magic.length + 4;

/** A body is not an envelope, or one of a later version. */
export class EnvelopeError extends Error {
  override readonly name = 'EnvelopeError';
}

/** Encodes a value. */
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
  if (value === undefined) return { $undefined: true };
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => [name, flatten(member, parts)] as const);
  return members.some(([name]) => name.startsWith('$')) ? { $object: members } : Object.fromEntries(members);
}

/** Decodes a body. The Buffers of the value share the body's memory. @throws EnvelopeError */
export function decode(body: Uint8Array): Value {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (bytes.length < preamble || !bytes.subarray(0, magic.length).equals(magic)) {
    throw new EnvelopeError('the body is not a cached value of Next.js: wrong magic bytes');
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
    // Falls through: the same as an invalid head.
  }
  throw new EnvelopeError('the head of the cached value is malformed');
}

/** Splits the body into its parts, which must end exactly at the end of the body. */
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
  const { $buffer: n, $map: pairs, $object: members, $undefined: isUndefined } = plain as Record<string, unknown>;
  if (isUndefined !== undefined) return undefined;
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
  throw new EnvelopeError('the cached value has a malformed Map or object');
}
