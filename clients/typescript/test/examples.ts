/** The examples in the documents, type-checked against the installed package. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

import { packageFolder } from './spec.js';

const documents = ['README.md', '../../docs/clients.md'];

/** What examples import beside the package, its required peers and Node.js. */
const imported = ['express', '@types/express', '@aws-sdk/client-kms', '@aws-sdk/client-s3'];

/** Examples that must be rejected, with the lines of their errors. */
const rejected: Record<string, { text: string; lines: number[] }> = {
  untyped: {
    text: "import '@facetheory/tabletheory';\nexport function shout(word) {\n  return word;\n}\n",
    lines: [2],
  },
  wrong: {
    text: `import { createPageCache } from '@facetheory/tabletheory/web';
const cache = createPageCache({ hosts: ['example.com'], scheme: 'HTTPS' });
await cache.purge(['news']);
`,
    lines: [2, 3],
  },
};

/** Returns a module for each example, by name. One without imports continues the one before. */
function examples(): Map<string, string> {
  const modules = new Map<string, string>();
  for (const document of documents) {
    const text = readFileSync(path.join(packageFolder(), document), 'utf8');
    let last = '';
    for (const [, example = ''] of text.matchAll(/^```(?:[jt]sx?|m[jt]s|javascript|typescript)\n(.*?)^```/gms)) {
      if (/^import /m.test(example)) last = `${path.basename(document, '.md').toLowerCase()}${modules.size}`;
      modules.set(last, (modules.get(last) ?? '') + example);
    }
  }
  return modules;
}

/** Checks that all examples compile, and that wrong ones do not. The package is installed in `folder`. */
export async function checkExamples(folder: string): Promise<void> {
  const own = path.join(folder, 'examples');
  for (const name of imported) {
    const link = path.join(own, 'node_modules', name);
    mkdirSync(path.dirname(link), { recursive: true });
    symlinkSync(path.join(packageFolder(), 'node_modules', name), link);
  }
  const modules = examples();
  assert.ok(modules.size > 8, `${modules.size} examples`);
  for (const [name, text] of modules) writeFileSync(path.join(own, `${name}.ts`), text);
  for (const [name, { text }] of Object.entries(rejected)) writeFileSync(path.join(own, `${name}.ts`), text);
  const compilerOptions = {
    ...{ target: 'es2022', lib: ['es2022', 'esnext.disposable'], module: 'nodenext', types: ['node'] },
    ...{ strict: true, exactOptionalPropertyTypes: true, skipLibCheck: true, noEmit: true },
  };
  writeFileSync(path.join(own, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  const tsc = ['--no-install', 'tsc', '--pretty', 'false', '-p', own];
  const { stdout } = await promisify(execFile)('npx', tsc, { cwd: folder }).catch((error: { stdout: string }) => error);
  const errors = [...stdout.matchAll(/([^/\s]+)\.ts\((\d+),\d+\): error/g)].map(([, name = '', line]) => ({
    name,
    line,
  }));
  assert.deepEqual(
    errors.filter(({ name }) => !(name in rejected)),
    [],
    stdout,
  );
  for (const [name, { lines }] of Object.entries(rejected)) {
    const found = errors.filter((error) => error.name === name).map(({ line }) => Number(line));
    assert.deepEqual([...new Set(found)], lines, stdout);
  }
}
