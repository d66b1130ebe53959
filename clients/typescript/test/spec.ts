/** Where the repository has the specification that all languages share, and this package. */

import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** A file of spec/, at the root of the repository: found from wherever the tests were compiled to. */
export function specFile(name: string): string {
  return path.join(root(), 'spec', name);
}

/** The folder of this package in the repository. */
export function packageFolder(): string {
  return path.join(root(), 'clients', 'typescript');
}

function root(): string {
  return above(path.dirname(fileURLToPath(import.meta.url)));
}

/** The nearest folder above that has the specification. */
function above(folder: string): string {
  if (existsSync(path.join(folder, 'spec', 'vectors'))) {
    return folder;
  }
  const parent = path.dirname(folder);
  if (parent === folder) {
    throw new Error('the folder spec is not above the tests; they run in the repository');
  }
  return above(parent);
}
