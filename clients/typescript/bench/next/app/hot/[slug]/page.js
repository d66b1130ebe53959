import { rendering } from '../../../renderings';

export const revalidate = 3600;

export const generateStaticParams = () => Array.from({ length: 20 }, (_, i) => ({ slug: String(i) }));

/** A page of about 30 KB of HTML. */
export default async function Hot({ params }) {
  const { slug } = await params;
  await rendering('hot');
  return (
    <ul>
      {Array.from({ length: 200 }, (_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes
        <li key={i}>
          Article {slug}.{i}, a line of text as long as those of a list
        </li>
      ))}
    </ul>
  );
}
