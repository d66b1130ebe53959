import { connection } from 'next/server';
import { Suspense } from 'react';

import { item } from '../../data';

async function Now() {
  await connection();
  return <i>{performance.now()}</i>;
}

/** A static shell with a dynamic hole. */
export default async function Part() {
  const { text, at } = await item('part');
  return (
    <main>
      <p>
        <b>{text}</b> at <time>{at}</time>
      </p>
      <Suspense fallback={<p>loading</p>}>
        <Now />
      </Suspense>
    </main>
  );
}
