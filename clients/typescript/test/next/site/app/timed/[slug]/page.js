import { rendering } from '../../../control';

export const revalidate = 3;

export const generateStaticParams = () => [];

export default async function Timed({ params }) {
  const { slug } = await params;
  await rendering(`timed/${slug}`);
  return (
    <p>
      {slug} at <time>{Date.now()}</time>
    </p>
  );
}
