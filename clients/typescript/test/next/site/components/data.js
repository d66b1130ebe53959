import { cacheLife, cacheTag } from 'next/cache';

import { rendering } from '../control';

async function dataOf(name) {
  if (!process.env.SITE_DATA) return 'built';
  return (await fetch(`${process.env.SITE_DATA}/${name}`, { cache: 'no-store' })).text();
}

/** The data under a name, for an hour. */
export async function item(name) {
  'use cache';
  cacheLife('hour');
  cacheTag(`item-${name}`);
  await rendering(`item/${name}`);
  return { text: await dataOf(name), at: Date.now() };
}

/** The data under a name, for three seconds. */
export async function brief(name) {
  'use cache';
  cacheLife('brief');
  cacheTag(`brief-${name}`);
  await rendering(`brief/${name}`);
  return { text: await dataOf(name), at: Date.now() };
}

export async function remote(name) {
  'use cache: remote';
  cacheLife('hour');
  cacheTag(`remote-${name}`);
  await rendering(`remote/${name}`);
  return { text: await dataOf(name), at: Date.now() };
}

/** A cached function that calls another. */
export async function nested(name) {
  'use cache';
  cacheLife('hour');
  await rendering(`nested/${name}`);
  const { text } = await item(name);
  return { text, at: Date.now() };
}
