import { unstable_cache } from 'next/cache';
import { notFound } from 'next/navigation';

import { rendering } from '../../../control';

export const revalidate = 3600;

export const generateStaticParams = () => ['a', 'b', 'c', 'd', 'e', 'none', 'ü'].map((slug) => ({ slug }));

export default async function Built({ params }) {
  const slug = decodeURIComponent((await params).slug);
  await rendering(`built/${slug}`);
  if (slug === 'none') notFound();
  const at = await unstable_cache(async () => Date.now(), [slug], { tags: [`built-${slug}`] })();
  return (
    <p>
      {slug} at <time>{at}</time>
    </p>
  );
}
