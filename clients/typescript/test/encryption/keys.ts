/** Keys for the tests of encrypted attributes. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import type { DataKey, KeyProvider } from '../../src/encryption/index.js';
import type { Cleanup } from '../engines.js';

/** Returns the path of a file that does not exist, in a folder that is deleted after the test. */
export function newPath(t: Cleanup): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'tabletheory-keys-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return path.join(folder, 'keys');
}

/** A provider that always has the same keys, valid or not, and records those that it gave away. */
export class FixedKeys implements KeyProvider {
  readonly given: Uint8Array[] = [];
  made = 0;
  opened = 0;

  constructor(
    readonly plain: Uint8Array = new Uint8Array(32).fill(1),
    readonly sealed: Uint8Array = Buffer.from('sealed'),
  ) {}

  async newDataKey(): Promise<DataKey> {
    this.made++;
    return { plain: this.#give(), sealed: this.sealed };
  }

  async openDataKey(): Promise<Uint8Array> {
    this.opened++;
    return this.#give();
  }

  #give(): Uint8Array {
    const copy = Uint8Array.from(this.plain);
    this.given.push(copy);
    return copy;
  }
}
