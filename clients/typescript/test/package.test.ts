/** The package as users get it: packed, installed into an empty directory, type-checked and run. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import type { Node } from 'typescript/unstable/ast';
import { isIdentifier, isTypeAliasDeclaration } from 'typescript/unstable/ast/is';
import {
  API,
  type Checker,
  type NodeHandle,
  type Project,
  SymbolFlags,
  type Symbol as TypeScriptSymbol,
} from 'typescript/unstable/sync';

import { engines, newTable, noEngine, type TestTable } from './engines.js';
import { checkExamples } from './examples.js';
import { packageFolder } from './spec.js';

const run = promisify(execFile);

const compilerOptions = {
  target: 'es2022',
  module: 'nodenext',
  strict: true,
  exactOptionalPropertyTypes: true,
  types: ['node'],
};

/** The package name that the reference documents import. */
const reference = '@theory-cloud/tabletheory-ts';

/** Creates an empty directory, deleted after the test. */
function emptyFolder(t: TestContext): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'tabletheory-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Packs the package into a directory and returns the file name. It packs a copy: packing
 * rebuilds `dist`, which other tests may be using.
 */
async function pack(t: TestContext, folder: string): Promise<string> {
  const copy = emptyFolder(t);
  for (const name of readdirSync(packageFolder())) {
    const source = path.join(packageFolder(), name);
    if (name === 'node_modules') symlinkSync(source, path.join(copy, name));
    else if (!['build', 'dist', 'test'].includes(name)) cpSync(source, path.join(copy, name), { recursive: true });
  }
  const { stdout } = await run('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: copy });
  return stdout.trim();
}

/** Installs the packed package and its peers. */
async function install(folder: string, packed: string): Promise<void> {
  const { devDependencies } = JSON.parse(readFileSync(path.join(packageFolder(), 'package.json'), 'utf8'));
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ name: 'user', private: true, type: 'module' }));
  writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
  const peers = ['@aws-sdk/client-dynamodb', '@types/node', 'typescript'].map(
    (name) => `${name}@${devDependencies[name]}`,
  );
  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
  const alias = `${reference}@file:./${packed}`;
  await run('npm', ['install', ...flags, `./${packed}`, alias, ...peers], { cwd: folder });
}

/** Type-checks and compiles all programs of a directory. */
async function compile(folder: string): Promise<void> {
  const { stdout } = await run('npx', ['--no-install', 'tsc'], { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  );
  assert.equal(stdout, '', 'tsc reports no errors');
}

async function output(
  folder: string,
  program: string,
  table: TestTable,
  node: string = process.execPath,
): Promise<string> {
  const env = {
    PATH: process.env['PATH'],
    HOME: folder,
    AWS_ENDPOINT_URL_DYNAMODB: table.engine.endpoint,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    FACETHEORY_CACHE_TABLE_NAME: table.tableName,
  };
  return (await run(node, [program], { cwd: folder, env })).stdout;
}

/** The programs in the README, in order. */
function readme(): string[] {
  const text = readFileSync(path.join(packageFolder(), 'README.md'), 'utf8');
  return [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, program = '']) => program);
}

test('the package installs, and runs the programs of the reference documents and its README', {
  timeout: 900_000,
  concurrency: true,
}, async (t) => {
  const folder = emptyFolder(t);
  const packed = await pack(t, folder);
  await t.test('contents', () => checkContents(folder, packed));
  await t.test('publishing', () => checkPublishing(folder, packed));
  const text = readFileSync(path.join(packageFolder(), 'README.md'), 'utf8');
  assert.ok(text.includes(`clients/typescript/${packed}`), `the README installs ${packed}`);
  await install(folder, packed);
  const [quickStart = '', encryption = '', pages = '', purge = '', leases = ''] = readme();
  writeFileSync(path.join(folder, 'quickstart.ts'), quickStart);
  writeFileSync(path.join(folder, 'encryption.ts'), encryption);
  writeFileSync(path.join(folder, 'pages.ts'), pages);
  writeFileSync(path.join(folder, 'purge.ts'), purge);
  writeFileSync(path.join(folder, 'leases.ts'), leases);
  cpSync(path.join(packageFolder(), 'test/installed'), folder, { recursive: true });
  const store = readFileSync(path.join(folder, 'store.ts'), 'utf8');
  writeFileSync(path.join(folder, 'alias.ts'), store.replace("'@facetheory/tabletheory'", `'${reference}'`));
  await compile(folder);
  await t.test('examples', () => checkExamples(folder));
  await t.test('declarations', () => checkDeclarations(folder));
  if (engines().length === 0) {
    await t.test('programs', { skip: noEngine });
  }
  const runs = engines().map((engine) =>
    t.test(`programs (${engine.name})`, async (t) => checkPrograms(folder, await newTable(t, engine))),
  );
  await Promise.all(runs);
  await t.test('other versions of Node.js', { skip: nodes().length === 0 || !engines()[0] ? noNodes : false }, (t) =>
    checkNodes(t, folder),
  );
});

async function checkContents(folder: string, packed: string): Promise<void> {
  await run('tar', ['-xzf', packed], { cwd: folder });
  assert.deepEqual(readdirSync(path.join(folder, 'package')).sort(), [
    'LICENSE',
    'README.md',
    'dist',
    'package.json',
    'src',
  ]);
  const entries = readdirSync(path.join(folder, 'package/dist'), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => entry.name);
  assert.ok(files.includes('index.js') && files.includes('index.d.ts'));
  assert.deepEqual(
    files.filter((name) => !/\.(js|d\.ts)(\.map)?$/.test(name)),
    [],
  );
  rmSync(path.join(folder, 'package'), { recursive: true });
}

/** Does all of npm publish but the upload, and checks that the exports are what bundlers and Node.js expect. */
async function checkPublishing(folder: string, packed: string): Promise<void> {
  const { stdout } = await run('npm', ['publish', '--dry-run', '--json', `./${packed}`], { cwd: folder });
  assert.match(stdout, /"@facetheory\/tabletheory@\d+\.\d+\.\d+"/);
  const publint = path.join(packageFolder(), 'node_modules/.bin/publint');
  const report = await run(publint, [path.join(folder, packed), '--strict']);
  assert.match(report.stdout, /All good!/);
}

/** Checks that some entry exports each type of the package that the declarations of its exports name. */
function checkDeclarations(folder: string): void {
  const root = path.join(folder, 'node_modules/@facetheory/tabletheory');
  const { exports } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  const files = Object.values<{ types?: string }>(exports).flatMap(({ types }) =>
    types ? path.join(root, types) : [],
  );
  const config = path.join(folder, 'declarations.json');
  writeFileSync(config, JSON.stringify({ compilerOptions: { ...compilerOptions, noEmit: true }, files }));
  const api = new API({ cwd: folder });
  try {
    const [project] = api.updateSnapshot({ openProjects: [config] }).getProjects();
    assert.ok(project);
    const exported = exportsOf(project, files);
    assert.ok(exported.size > 100, `${exported.size} exports`);
    const missing = [...exported].flatMap((symbol) =>
      typesIn(project, symbol).flatMap((type) => (exported.has(type) ? [] : `${type.name}, in ${symbol.name}`)),
    );
    assert.deepEqual([...new Set(missing)], [], 'types that no entry exports');
  } finally {
    api.close();
  }
}

function exportsOf({ checker, program }: Project, files: readonly string[]): Set<TypeScriptSymbol> {
  const symbols = files.flatMap((file) => {
    const source = program.getSourceFile(file);
    const module = source && checker.getSymbolAtLocation(source);
    assert.ok(module, file);
    return checker.getExportsOfModule(module);
  });
  return new Set(symbols.map((symbol) => resolveAlias(checker, symbol)));
}

/**
 * The types of the package that the declarations of a symbol name. Generic aliases are left out: their
 * helper types compute a type, and users meet only the result.
 */
function typesIn({ checker }: Project, symbol: TypeScriptSymbol): TypeScriptSymbol[] {
  const isOurs = ({ path }: NodeHandle) => path.includes('/tabletheory/dist/');
  const types: TypeScriptSymbol[] = [];
  const visit = (node: Node): void => {
    if (isTypeAliasDeclaration(node) && node.typeParameters) return;
    const found = isIdentifier(node) ? checker.getSymbolAtLocation(node) : undefined;
    const named = found && resolveAlias(checker, found);
    const isType = named && named.flags & SymbolFlags.Type && !(named.flags & SymbolFlags.TypeParameter);
    if (isType && named.declarations.some(isOurs)) types.push(named);
    node.forEachChild(visit);
  };
  for (const declaration of symbol.declarations.filter(isOurs)) {
    const node = declaration.resolve();
    assert.ok(node, symbol.name);
    visit(node);
  }
  return types;
}

function resolveAlias(checker: Checker, symbol: TypeScriptSymbol): TypeScriptSymbol {
  return symbol.flags & SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

/** The Node.js binaries of test/nodes, which holds the supported versions. */
function nodes(): string[] {
  const modules = path.join(packageFolder(), 'test/nodes/node_modules');
  if (!existsSync(modules)) return [];
  const names = readdirSync(modules).filter((name) => name.startsWith('node-'));
  return names.map((name) => path.join(modules, name, 'bin/node'));
}

const noNodes = 'test/nodes has no binaries of Node.js, or there is no engine; run npm ci in test/nodes';

/** Runs the installed package under each supported version of Node.js. */
async function checkNodes(t: TestContext, folder: string): Promise<void> {
  const [engine] = engines();
  assert.ok(engine);
  const table = await newTable(t, engine);
  for (const node of nodes()) {
    for (const program of ['quickstart.js', 'encryption.js', 'leases.js', 'quickstart.js', 'commonjs.cjs']) {
      assert.notEqual(await output(folder, program, table, node), '', `${node} ${program}`);
    }
  }
}

/** Runs the programs at the same time, but those that use the same rows one after the other. */
async function checkPrograms(folder: string, table: TestTable): Promise<void> {
  assert.equal(await output(folder, 'commonjs.cjs', table), 'required\n');
  const inOrder = async (...programs: [name: string, expected: string][]) => {
    for (const [name, expected] of programs) assert.equal(await output(folder, `${name}.js`, table), expected, name);
  };
  const quickstart: [string, string] = ['quickstart', 'fresh\nSinnerman 1965\n'];
  const encryption: [string, string] = ['encryption', 'DE02120300000000202051\n'];
  const pages: [string, string] = ['pages', 'true\ntrue\n'];
  const purge: [string, string] = ['purge', 'stale\n'];
  await Promise.all([
    inOrder(quickstart, quickstart),
    inOrder(encryption, encryption),
    inOrder(pages, purge, pages, purge),
    inOrder(['leases', 'running until the lease is lost: false\n']),
    inOrder(['transact', 'published\n']),
    inOrder(['store', 'fresh\n'], ['alias', 'fresh\n']),
    inOrder(['adapter', 'adapted\n']),
  ]);
}
