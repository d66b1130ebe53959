import { cacheLife, cacheTag } from 'next/cache';
import { Suspense } from 'react';

import { rendering } from '../../../../control';

async function Component({ slug }) {
  'use cache';
  cacheLife('hour');
  cacheTag(`component-${slug}`);
  await rendering(`component/${slug}`);
  return (
    <p>
      <time>{Date.now()}</time>
    </p>
  );
}

async function Later({ params }) {
  const { slug } = await params;
  return <Component slug={slug} />;
}

export default function Page({ params }) {
  return (
    <Suspense fallback={<p>loading</p>}>
      <Later params={params} />
    </Suspense>
  );
}
