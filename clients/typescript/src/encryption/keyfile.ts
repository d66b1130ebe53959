/** Master keys in a file, for development. Go's and Python's clients use the same files. */

import { createSecretKey, type KeyObject, randomBytes, randomUUID } from 'node:crypto';
import { type FileHandle, link, open, realpath, rename, rm } from 'node:fs/promises';
import path from 'node:path';

import { InvalidInputError, MalformedRowError, TamperedError, UnknownKeyError } from '../errors.js';
import { decrypt, encrypt, keySize, nonceSize, tagSize } from './envelope.js';
import type { DataKey, KeyProvider } from './keyprovider.js';
import { bytes, InvalidPlaintext } from './plaintext.js';

/** The maximum size of a key file, in bytes; about 14,000 keys. */
const maxFile = 1 << 20;
const fileMode = 0o600;
/** The mode bits of other users. */
const othersMode = 0o077;

/** The comment at the top of a new file. */
const fileHeader = `# Master keys of encrypted attributes (@facetheory/tabletheory/encryption).
# Each line: id and key (32 bytes in base64). The first key seals, all keys open.
# Without the keys, encrypted data is lost. Back up this file and keep it secret.
`;

interface MasterKey {
  id: string;
  key: KeyObject;
}

/**
 * A key provider for development, whose master keys are in a file. Several processes may use
 * the file at the same time.
 */
export class KeyFile implements KeyProvider {
  readonly #path: string;
  /** The newest key first. */
  #keys: readonly MasterKey[];

  private constructor(path: string, keys: readonly MasterKey[]) {
    this.#path = path;
    this.#keys = keys;
  }

  /**
   * Reads the master keys from a file. If it does not exist, it is created with one key; its
   * folder must exist. The file must have the mode 0600. It is text: each line has an id, a
   * space and 32 bytes in base64, the newest key first. Empty lines and lines that begin
   * with # are ignored.
   *
   * @throws InvalidInputError if the file is not a key file, or other users can read it
   */
  static async open(path: string): Promise<KeyFile> {
    try {
      return new KeyFile(path, await loadKeys(path));
    } catch (error) {
      if (!isCode(error, 'ENOENT')) throw error;
    }
    await createFile(path);
    return new KeyFile(path, await loadKeys(path));
  }

  async newDataKey(): Promise<DataKey> {
    const [newest] = this.#keys as [MasterKey];
    const plain = randomBytes(keySize);
    return { plain, sealed: sealKey(newest, plain) };
  }

  /**
   * Opens a data key with the master key that sealed it. If that key is not in memory, the
   * file is read again, because another process may have added it.
   */
  async openDataKey(sealed: Uint8Array): Promise<Uint8Array> {
    const { header, id } = parseSealed(sealed);
    let master = this.#find(id);
    if (master === undefined) {
      this.#keys = await loadKeys(this.#path);
      master = this.#find(id);
    }
    if (master === undefined) {
      throw new UnknownKeyError(
        `the data key was sealed by the master key ${id}, which is not in ${this.#path}; restore its line from a backup of the file`,
      );
    }
    return openKey(master, header, sealed.subarray(header.length));
  }

  /**
   * Adds a new master key to the file. From then on it seals, and all keys open. Attributes
   * are sealed with the new key when they are written again; an old key may be deleted from
   * the file once no attribute uses it. Other processes seal with the new key after they
   * open the file again, or an attribute that it sealed.
   */
  async rotate(): Promise<void> {
    this.#keys = await rotateFile(this.#path);
  }

  #find(id: string): MasterKey | undefined {
    return this.#keys.find((key) => key.id === id);
  }
}

/** Seals a data key: the length of the id, the id, the nonce and the ciphertext. */
function sealKey({ id, key }: MasterKey, plain: Uint8Array): Buffer {
  const header = Buffer.from(`${String.fromCharCode(id.length)}${id}`);
  const nonce = randomBytes(nonceSize);
  return Buffer.concat([header, nonce, withKey(key, (bytes) => encrypt(bytes, nonce, header, plain))]);
}

function openKey({ id, key }: MasterKey, header: Uint8Array, rest: Uint8Array): Buffer {
  const [nonce, ct] = [rest.subarray(0, nonceSize), rest.subarray(nonceSize)];
  const plain = withKey(key, (bytes) => decrypt(bytes, nonce, header, ct));
  if (plain === undefined) {
    throw new TamperedError(`the data key was modified, or sealed by another master key with the id ${id}`);
  }
  return plain;
}

/** Lends the bytes of a key. */
function withKey<T>(key: KeyObject, use: (bytes: Uint8Array) => T): T {
  const bytes = key.export();
  try {
    return use(bytes);
  } finally {
    bytes.fill(0);
  }
}

function parseSealed(sealed: Uint8Array): { header: Uint8Array; id: string } {
  const header = sealed.subarray(0, 1 + (sealed[0] ?? 0));
  const id = Buffer.from(header.subarray(1)).toString('latin1');
  if (sealed.length !== header.length + nonceSize + keySize + tagSize || !isId(id)) {
    const found = `${sealed.length} bytes of another format`;
    throw new MalformedRowError({
      pk: '',
      sk: '',
      attribute: 'edk',
      expected: 'a data key that a key file sealed',
      found,
    });
  }
  return { header, id };
}

function isId(text: string): boolean {
  return /^[\w-]{1,64}$/.test(text);
}

async function loadKeys(file: string): Promise<MasterKey[]> {
  const text = await readKeys(file);
  try {
    return parseKeys(file, text.toString());
  } finally {
    text.fill(0);
  }
}

/** Checks the kind, the mode and the size of a file and reads it. */
async function readKeys(file: string): Promise<Buffer> {
  const handle = await open(file);
  try {
    const found = await handle.stat();
    if (!found.isFile()) {
      throw new InvalidInputError(`key file ${file}: it is no regular file; give the path of a file`);
    }
    // Windows has no modes.
    if (process.platform !== 'win32' && (found.mode & othersMode) !== 0) {
      const mode = (found.mode & 0o777).toString(8).padStart(4, '0');
      throw new InvalidInputError(
        `key file ${file}: the mode ${mode} gives other users access to the keys; chmod 600 ${file}`,
      );
    }
    if (found.size > maxFile) {
      throw new InvalidInputError(`key file ${file}: it has ${found.size} bytes; expected at most ${maxFile}`);
    }
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

/** Parses a key file. Errors give the number of the line and do not quote it, since it may contain a key. */
function parseKeys(file: string, text: string): MasterKey[] {
  const keys = new Map<string, MasterKey>();
  for (const [i, line] of text.split('\n').entries()) {
    if (isComment(line)) continue;
    const fail = (problem: string): never => {
      throw new InvalidInputError(`key file ${file}: line ${i + 1}: ${problem}`);
    };
    const master = parseLine(line, fail);
    if (keys.has(master.id)) {
      fail(`the id ${master.id} occurs twice; every key needs its own id`);
    }
    keys.set(master.id, master);
  }
  if (keys.size === 0) {
    throw new InvalidInputError(
      `key file ${file}: it has no key; restore it from a backup, or, if nothing was encrypted with it, delete it to create a new one`,
    );
  }
  return [...keys.values()];
}

function isComment(line: string): boolean {
  return /^\s*(#|$)/.test(line);
}

function parseLine(line: string, fail: (problem: string) => never): MasterKey {
  const [id = '', encoded = '', ...others] = line.trim().split(/\s+/);
  if (!isId(id) || encoded === '' || others.length > 0) {
    fail(`expected an id (1 to 64 letters, digits, - and _), a space, and a key of ${keySize} bytes in base64`);
  }
  const key = decodeKey(encoded);
  if (key?.length !== keySize) {
    return fail(`the key ${id} is not ${keySize} bytes in base64; restore the line from a backup`);
  }
  const master = { id, key: createSecretKey(key) };
  key.fill(0);
  return master;
}

function decodeKey(encoded: string): Uint8Array | undefined {
  try {
    return bytes(encoded);
  } catch (error) {
    if (!(error instanceof InvalidPlaintext)) throw error;
    return undefined;
  }
}

/** Creates a file with one key, unless another process creates it first. */
async function createFile(file: string): Promise<void> {
  const temporary = `${file}.${randomUUID()}`;
  const handle = await open(temporary, 'wx', fileMode);
  try {
    await writeAndSync(handle, fileHeader + newLine());
    // The file appears at once and complete. A link, unlike a rename, does not replace the
    // keys of another process.
    await link(temporary, file).catch((error: unknown) => {
      if (!isCode(error, 'EEXIST')) throw error;
    });
  } finally {
    await handle.close();
    await rm(temporary);
  }
  await syncFolder(file);
}

/**
 * Adds a key in front of the others. The new file is also a lock: only one process can
 * create it, reads the old file while it has it, and gives it up by renaming it over the
 * old file. So no key is lost.
 */
async function rotateFile(given: string): Promise<MasterKey[]> {
  const file = await realpath(given); // otherwise the rename replaces the link
  const next = `${file}.new`;
  const handle = await open(next, 'wx', fileMode).catch((error: unknown) => {
    if (!isCode(error, 'EEXIST')) throw error;
    throw new InvalidInputError(
      `key file ${file}: another process is rotating it, or was interrupted; try again, and if ${next} remains, delete it`,
      { cause: error },
    );
  });
  let text: string;
  try {
    text = await writeRotated(file, handle);
    await rename(next, file);
  } catch (error) {
    await rm(next, { force: true });
    throw error;
  }
  // Synced before the new key seals anything: a crash must not undo the rename. After the
  // rename, a file with the name of next belongs to another process.
  await syncFolder(file);
  return parseKeys(file, text);
}

/** Writes the text of a file with a new key to `next`, closes that, and returns the text. */
async function writeRotated(file: string, next: FileHandle): Promise<string> {
  try {
    const old = await readKeys(file);
    const text = old.toString();
    old.fill(0);
    parseKeys(file, text);
    const rotated = insertLine(newLine(), text);
    await writeAndSync(next, rotated);
    return rotated;
  } finally {
    await next.close();
  }
}

/** Inserts a line before the first one that is not a comment. */
function insertLine(line: string, text: string): string {
  const lines = text.split('\n');
  lines.splice(
    lines.findIndex((other) => !isComment(other)),
    0,
    line.trimEnd(),
  );
  return lines.join('\n');
}

/** Returns a new master key as a line of a key file. */
function newLine(): string {
  const key = randomBytes(keySize);
  const line = `${randomBytes(16).toString('hex')} ${key.toString('base64')}\n`;
  key.fill(0);
  return line;
}

async function writeAndSync(handle: FileHandle, text: string): Promise<void> {
  await handle.writeFile(text);
  await handle.sync();
}

/** Syncs the folder of a file, and with it the file's directory entry. */
async function syncFolder(file: string): Promise<void> {
  const handle = await open(path.dirname(file));
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
