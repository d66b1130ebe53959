/**
 * Envelope encryption of single attributes, in the format of Go's package
 * tabletheory/envelope: a map of the version `v`, the sealed data key `edk`, a `nonce`, and
 * the AES-256-GCM ciphertext `ct`. The attributes of one write share a data key, which is
 * generated for that write.
 */

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';

import { canonicalDecimal } from '../decimal.js';
import type { Encryption, ItemLocation } from '../encrypted.js';
import {
  InvalidInputError,
  KeyProviderError,
  MalformedRowError,
  NotEncryptedError,
  TamperedError,
  UnknownKeyError,
} from '../errors.js';
import type { Item } from '../item.js';
import type { KeyProvider } from './keyprovider.js';
import { additionalData, describeLocation, formatVersion, keyTexts } from './location.js';
import { InvalidPlaintext, parsePlaintext, plaintextOf } from './plaintext.js';

export const algorithm = 'aes-256-gcm';
/** Sizes in bytes: of a data key, and of AES-GCM's nonce and tag. */
export const keySize = 32;
export const nonceSize = 12;
export const tagSize = 16;
/** KMS's limit of a sealed data key, in bytes. */
const maxSealedKey = 6144;
/** DynamoDB's limit of an item, in bytes. */
const maxCiphertext = 400 * 1024;

/** An encrypted attribute, as it is stored. */
interface Envelope {
  edk: Uint8Array;
  nonce: Uint8Array;
  ct: Uint8Array;
}

/**
 * Returns the encryption with the keys of a provider, for `TheorydbClient`. It costs one
 * `newDataKey` for each item that is written, and one `openDataKey` for each different
 * write from which the encrypted attributes of an item that is read come.
 */
export function envelopeEncryption(keys: KeyProvider): Encryption {
  return {
    seal: (location, attributes, signal) => sealAll(keys, location, attributes, signal),
    open: (location, attributes, signal) => openAll(keys, location, attributes, signal),
  };
}

async function sealAll(
  keys: KeyProvider,
  location: ItemLocation,
  attributes: Item,
  signal: AbortSignal | undefined,
): Promise<Item> {
  const plaintexts = Object.entries(attributes).map(([name, value]) => [name, encoded(location, name, value)] as const);
  try {
    return await withNewKey(keys, signal, (key, edk) => {
      const sealed = plaintexts.map(([name, plaintext]) => [name, seal(location, name, plaintext, key, edk)] as const);
      return Object.fromEntries(sealed);
    });
  } finally {
    for (const [, plaintext] of plaintexts) plaintext.fill(0);
  }
}

function encoded(location: ItemLocation, name: string, value: AttributeValue): Buffer {
  try {
    return Buffer.from(plaintextOf(value));
  } catch (error) {
    if (!(error instanceof InvalidPlaintext)) throw error;
    throw new InvalidInputError(
      `encrypt ${describeLocation(location, name)}: the value contains ${error.message}, which DynamoDB cannot store`,
    );
  }
}

async function withNewKey<T>(
  keys: KeyProvider,
  signal: AbortSignal | undefined,
  use: (key: Uint8Array, edk: Uint8Array) => T,
): Promise<T> {
  const { plain, sealed } = await keys.newDataKey(signal);
  try {
    checkKey(plain);
    if (sealed.length < 1 || sealed.length > maxSealedKey) {
      throw new KeyProviderError(
        `the key provider returned a sealed data key of ${sealed.length} bytes; expected 1 to ${maxSealedKey}`,
      );
    }
    return use(plain, sealed);
  } finally {
    plain.fill(0);
  }
}

function checkKey(plain: Uint8Array): void {
  if (plain.length !== keySize) {
    throw new KeyProviderError(`the key provider returned a data key of ${plain.length} bytes; expected ${keySize}`);
  }
}

function seal(
  location: ItemLocation,
  name: string,
  plaintext: Uint8Array,
  key: Uint8Array,
  edk: Uint8Array,
): AttributeValue {
  const nonce = randomBytes(nonceSize);
  const ct = encrypt(key, nonce, additionalData(location, name), plaintext);
  return { M: { v: { N: String(formatVersion) }, edk: { B: edk }, nonce: { B: nonce }, ct: { B: ct } } };
}

/** Encrypts by AES-256-GCM, with the tag at the end. */
export function encrypt(key: Uint8Array, nonce: Uint8Array, ad: Uint8Array, plaintext: Uint8Array): Buffer {
  const cipher = createCipheriv(algorithm, key, nonce).setAAD(ad);
  return Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}

/** Decrypts by AES-256-GCM. @returns undefined if the ciphertext is not authentic */
export function decrypt(key: Uint8Array, nonce: Uint8Array, ad: Uint8Array, ct: Uint8Array): Buffer | undefined {
  const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagSize }).setAAD(ad);
  decipher.setAuthTag(ct.subarray(ct.length - tagSize));
  const plaintext = decipher.update(ct.subarray(0, ct.length - tagSize));
  try {
    decipher.final();
    return plaintext;
  } catch {
    plaintext.fill(0);
    return undefined;
  }
}

async function openAll(
  keys: KeyProvider,
  location: ItemLocation,
  attributes: Item,
  signal: AbortSignal | undefined,
): Promise<Item> {
  const groups = new Map<string, [name: string, envelope: Envelope][]>();
  for (const [name, value] of Object.entries(attributes)) {
    const envelope = envelopeOf(location, name, value);
    const edk = Buffer.from(envelope.edk).toString('base64');
    groups.set(edk, [...(groups.get(edk) ?? []), [name, envelope]]);
  }
  const opened: [string, AttributeValue][] = [];
  for (const group of groups.values()) {
    opened.push(...(await openGroup(keys, location, group, signal)));
  }
  return Object.fromEntries(opened);
}

/** Opens attributes that share a data key. */
async function openGroup(
  keys: KeyProvider,
  location: ItemLocation,
  group: [name: string, envelope: Envelope][],
  signal: AbortSignal | undefined,
): Promise<[string, AttributeValue][]> {
  const [[first, { edk }]] = group as [[string, Envelope]];
  const key = await keys.openDataKey(edk, signal).catch((error: unknown) => {
    throw dataKeyError(location, first, error);
  });
  try {
    checkKey(key);
    return group.map(([name, envelope]) => [name, open(location, name, envelope, key)]);
  } finally {
    key.fill(0);
  }
}

/** Adds the location to a provider's error. Errors of other packages, such as KMS's, stay. */
function dataKeyError(location: ItemLocation, name: string, error: unknown): unknown {
  const message = `decrypt ${describeLocation(location, name)}: ${error instanceof Error ? error.message : error}`;
  if (error instanceof UnknownKeyError) {
    return new UnknownKeyError(message, { cause: error });
  }
  if (error instanceof TamperedError) {
    return new TamperedError(message, { cause: error });
  }
  if (error instanceof MalformedRowError) {
    return malformed(location, `${name}.edk`, error.expected, error.found);
  }
  return error;
}

function open(location: ItemLocation, name: string, { nonce, ct }: Envelope, key: Uint8Array): AttributeValue {
  const plaintext = decrypt(key, nonce, additionalData(location, name), ct);
  if (plaintext === undefined) {
    throw new TamperedError(
      `decrypt ${describeLocation(location, name)}: the value was modified, or copied from another attribute, item or table; write it again, or restore the item`,
    );
  }
  try {
    return parsePlaintext(plaintext);
  } catch (error) {
    if (!(error instanceof InvalidPlaintext)) throw error;
    throw malformed(location, name, "an encrypted value in DynamoDB's JSON", error.message);
  } finally {
    plaintext.fill(0);
  }
}

/** Parses an encrypted attribute. */
function envelopeOf(location: ItemLocation, name: string, value: AttributeValue): Envelope {
  const stored = value.M;
  if (stored?.['edk'] === undefined) {
    throw new NotEncryptedError(
      `decrypt ${describeLocation(location, name)}: it is stored in plain text; to encrypt it, read it with a model in which it is not encrypted and write it with this one`,
    );
  }
  const version = canonicalDecimal(stored['v']?.N ?? '');
  if (version !== String(formatVersion)) {
    const expected = `version ${formatVersion} of the format; a later version needs a later release of this package`;
    throw malformed(location, `${name}.v`, expected, version === undefined ? 'no number' : `version ${version}`);
  }
  const member = (part: string, least: number, most: number) => {
    const found = stored[part]?.B;
    if (found === undefined || found.length < least || found.length > most) {
      const expected = least === most ? `${least} bytes` : `${least} to ${most} bytes`;
      throw malformed(location, `${name}.${part}`, expected, found ? `${found.length} bytes` : 'no binary');
    }
    return found;
  };
  const envelope = {
    edk: member('edk', 1, maxSealedKey),
    nonce: member('nonce', nonceSize, nonceSize),
    ct: member('ct', tagSize, maxCiphertext),
  };
  const count = Object.keys(stored).length;
  if (count !== 4) {
    throw malformed(location, name, 'a map of v, edk, nonce and ct', `a map of ${count}`);
  }
  return envelope;
}

function malformed(location: ItemLocation, attribute: string, expected: string, found: string): MalformedRowError {
  return new MalformedRowError({ ...keyTexts(location), attribute, expected, found });
}
