import { appendFile, stat } from 'node:fs/promises';

/** Counts a rendering, and holds it up for as long as there is a file SITE_GATE, for 30 s at most. */
export async function made(name) {
  await appendFile(process.env.SITE_MADE ?? '/dev/null', `${process.pid} ${name}\n`);
  const until = Date.now() + 30_000;
  while (Date.now() < until && (await isClosed())) await new Promise((resolve) => setTimeout(resolve, 20));
  if (await exists(process.env.SITE_BROKEN)) throw new Error(`${name} cannot be made`);
}

const isClosed = () => exists(process.env.SITE_GATE);

async function exists(file) {
  if (!file) return false;
  return stat(file).then(
    () => true,
    () => false,
  );
}
