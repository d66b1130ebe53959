import { made } from '../../../made';

export const revalidate = 3;

export const generateStaticParams = () => [];

export default async function Timed({ params }) {
  const { slug } = await params;
  await made(`timed/${slug}`);
  return (
    <p>
      {slug} at <time>{Date.now()}</time>
    </p>
  );
}
