import { appendFile } from 'node:fs/promises';

/** Records a rendering in the file of the benchmark. */
export async function rendering(name) {
  const file = process.env.BENCH_RENDERINGS;
  if (file) await appendFile(file, `${name}\n`);
}
