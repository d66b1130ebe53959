import { appendFile, stat } from 'node:fs/promises';
import { join } from 'node:path';

const folder = process.env.SITE_CONTROL;

/** Records a rendering, blocks while the page's gate is closed (at most 30 s), and fails if the page is set to fail. */
export async function rendering(name) {
  if (!folder) return;
  await appendFile(join(folder, 'renderings'), `${process.pid} ${name}\n`);
  const deadline = Date.now() + 30_000;
  while (Date.now() < deadline && (await isSet('gate', name))) await new Promise((resolve) => setTimeout(resolve, 20));
  if (await isSet('fail', name)) throw new Error(`${name} is set to fail`);
}

function isSet(flag, name) {
  return stat(join(folder, `${flag}-${name.replaceAll('/', '~')}`)).then(
    () => true,
    () => false,
  );
}
