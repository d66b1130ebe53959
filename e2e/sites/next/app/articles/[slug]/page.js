import { notFound } from 'next/navigation';
import { articles } from '../../articles';

export const revalidate = 5;

export function generateStaticParams() {
  return Object.keys(articles).map((slug) => ({ slug }));
}

export default async function Article({ params }) {
  const { slug } = await params;
  if (slug === 'missing') notFound();
  const { title, text } = articles[slug] ?? { title: slug, text: 'Rendered when it was first asked for.' };
  return (
    <main>
      <h1>{title}</h1>
      <p>{text}</p>
      <p>Rendered <time id="rendered">{new Date().toISOString()}</time></p>
    </main>
  );
}
