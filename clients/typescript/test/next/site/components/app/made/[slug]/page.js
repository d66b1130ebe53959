import { cacheLife, cacheTag } from 'next/cache';
import { notFound } from 'next/navigation';

import { rendering } from '../../../../control';

export const generateStaticParams = () => [{ slug: 'built' }];

/** A page that is cached as a whole. */
export default async function Made({ params }) {
  'use cache';
  const { slug } = await params;
  cacheLife('hour');
  cacheTag(`made-${slug}`);
  await rendering(`made/${slug}`);
  if (slug.startsWith('none')) notFound();
  return (
    <p>
      {slug} at <time>{Date.now()}</time>
    </p>
  );
}
