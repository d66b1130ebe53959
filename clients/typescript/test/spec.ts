/** Locates the shared specification and this package in the repository. */

import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Returns the path of a file in spec/, wherever the tests were compiled to. */
export function specFile(name: string): string {
  return path.join(root(), 'spec', name);
}

/** Returns the directory of this package in the repository. */
export function packageFolder(): string {
  return path.join(root(), 'clients', 'typescript');
}

function root(): string {
  return above(path.dirname(fileURLToPath(import.meta.url)));
}

/** Returns the nearest parent directory that contains the specification. */
function above(folder: string): string {
  if (existsSync(path.join(folder, 'spec', 'vectors'))) {
    return folder;
  }
  const parent = path.dirname(folder);
  if (parent === folder) {
    throw new Error('no parent directory of the tests contains spec; run them in the repository');
  }
  return above(parent);
}
