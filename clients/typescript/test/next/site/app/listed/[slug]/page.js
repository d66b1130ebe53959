import { rendering } from '../../../control';

export const generateStaticParams = () => [];

export default async function Listed({ params }) {
  const { slug } = await params;
  const answer = await fetch(`${process.env.SITE_DATA}/${slug}`, {
    next: { tags: [`list-${slug}`], revalidate: 3600 },
  });
  const data = await answer.text();
  await rendering(`listed/${slug}`);
  return (
    <p>
      {slug} has <b>{data}</b> at <time>{Date.now()}</time>
    </p>
  );
}
