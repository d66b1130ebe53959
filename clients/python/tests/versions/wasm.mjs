// Runs smoke.py in CPython that is compiled to WebAssembly, without network and threads.
//
//     node wasm.mjs FOLDER PACKAGES... -- ARGUMENT...
//
// FOLDER has tests/versions/smoke.py; PACKAGES are folders of installed packages. It prints the version of Python.

import { createRequire } from 'node:module';

const { loadPyodide } = createRequire(import.meta.url)('pyodide');

const given = process.argv.slice(2);
const end = given.indexOf('--');
const [folder, ...packages] = given.slice(0, end);
const python = await loadPyodide();
const mounts = [folder, ...packages].map((root, i) => {
  const at = `/mounted/${i}`;
  python.FS.mkdirTree(at);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, at);
  return at;
});
python.globals.set('paths', python.toPy(mounts));
python.globals.set('arguments', python.toPy(given.slice(end + 1)));
process.exitCode = python.runPython(`
import os
import sys

sys.path[:0] = [*paths[1:], f"{paths[0]}/clients/python/tests/versions"]
os.chdir(f"{paths[0]}/clients/python")
print(sys.version)
import smoke

smoke.main(arguments)
`);
