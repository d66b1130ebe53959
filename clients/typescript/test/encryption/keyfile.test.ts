/** Key files: cases that the vectors cannot express. */

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { KeyFile } from '../../src/encryption/index.js';
import { InvalidInputError, UnknownKeyError } from '../../src/index.js';
import { newPath } from './keys.js';

/** Checks that a data key of one provider can be opened by another. */
async function opens(sealing: KeyFile, opening: KeyFile): Promise<void> {
  const { plain, sealed } = await sealing.newDataKey();
  assert.deepEqual(Buffer.from(await opening.openDataKey(sealed)), Buffer.from(plain));
}

test('a key file is created once, for its owner only', async (t) => {
  const file = newPath(t);
  const [first, ...others] = await Promise.all(Array.from({ length: 8 }, () => KeyFile.open(file)));
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(path.dirname(file)), ['keys'], 'no other file is left');
  for (const other of others) await opens(first as KeyFile, other);
});

test('data keys are random', async (t) => {
  const keys = await KeyFile.open(newPath(t));
  const [a, b] = [await keys.newDataKey(), await keys.newDataKey()];
  assert.notDeepEqual(a.plain, b.plain);
  assert.notDeepEqual(a.sealed.subarray(-60, -48), b.sealed.subarray(-60, -48), 'the nonces');
});

test('after a rotation the new key seals, and all keys open, in other processes too', async (t) => {
  const file = newPath(t);
  const [keys, other] = [await KeyFile.open(file), await KeyFile.open(file)];
  const before = await keys.newDataKey();
  await keys.rotate();
  const after = await keys.newDataKey();
  const id = (sealed: Uint8Array) => Buffer.from(sealed.subarray(1, 33)).toString();
  assert.notEqual(id(after.sealed), id(before.sealed));
  for (const { plain, sealed } of [before, after]) {
    assert.deepEqual(Buffer.from(await keys.openDataKey(sealed)), plain);
    assert.deepEqual(Buffer.from(await other.openDataKey(sealed)), plain);
  }
  const text = readFileSync(file, 'utf8');
  assert.match(text, /^#/);
  assert.ok(text.indexOf(id(after.sealed)) < text.indexOf(id(before.sealed)), 'the newest key is the first');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(path.dirname(file)), ['keys']);
});

test('concurrent rotations lose no key', async (t) => {
  const file = newPath(t);
  const all = await Promise.all(Array.from({ length: 6 }, () => KeyFile.open(file)));
  const results = await Promise.allSettled(all.map((keys) => keys.rotate()));
  const rotated = all.filter((_, i) => results[i]?.status === 'fulfilled');
  assert.notEqual(rotated.length, 0);
  for (const result of results) {
    if (result.status === 'rejected') assert.match(result.reason.message, /another process is rotating it/);
  }
  const fresh = await KeyFile.open(file);
  for (const keys of rotated) await opens(keys, fresh);
});

test('a rotation follows a symbolic link', async (t) => {
  const file = newPath(t);
  const linked = `${file}-link`;
  await KeyFile.open(file);
  symlinkSync(file, linked);
  const keys = await KeyFile.open(linked);
  await keys.rotate();
  await opens(keys, await KeyFile.open(file));
});

test('an interrupted rotation is reported', async (t) => {
  const file = newPath(t);
  const keys = await KeyFile.open(file);
  writeFileSync(`${file}.new`, '');
  await assert.rejects(keys.rotate(), (error: Error) => {
    assert.ok(error instanceof InvalidInputError);
    return error.message.includes(`if ${file}.new remains, delete it`);
  });
});

test('a file that is none, that others can read, or that is too large is refused', async (t) => {
  const folder = path.dirname(newPath(t));
  const cases: [name: string, text: string | undefined, mode: number, expected: RegExp][] = [
    ['folder', undefined, 0o700, /no regular file/],
    ['readable', '', 0o640, /mode 0640.*chmod 600/],
    ['large', '#'.repeat(2 ** 20 + 1), 0o600, /1048577 bytes/],
  ];
  for (const [name, text, mode, expected] of cases) {
    const file = path.join(folder, name);
    if (text === undefined) mkdirSync(file);
    else writeFileSync(file, text);
    chmodSync(file, mode);
    await assert.rejects(KeyFile.open(file), (error: Error) => {
      assert.ok(error instanceof InvalidInputError);
      assert.match(error.message, expected);
      return error.message.includes(file);
    });
  }
  await assert.rejects(KeyFile.open(path.join(folder, 'missing', 'keys')), { code: 'ENOENT' });
});

test('errors never contain a key', async (t) => {
  const file = newPath(t);
  const key = Buffer.alloc(31, 7).toString('base64');
  writeFileSync(file, `id ${key}\n`);
  chmodSync(file, 0o600);
  await assert.rejects(KeyFile.open(file), (error: Error) => {
    assert.match(error.message, /line 1: the key id is not 32 bytes/);
    return !error.message.includes(key);
  });
});

test('an unknown master key is named', async (t) => {
  const [one, other] = [await KeyFile.open(newPath(t)), await KeyFile.open(newPath(t))];
  const { sealed } = await one.newDataKey();
  await assert.rejects(other.openDataKey(sealed), (error: Error) => {
    assert.ok(error instanceof UnknownKeyError);
    return error.message.includes(Buffer.from(sealed.subarray(1, 33)).toString());
  });
});
