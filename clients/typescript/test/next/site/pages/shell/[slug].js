import { rendering } from '../../control';

export const getStaticPaths = () => ({ paths: [], fallback: true });

export async function getStaticProps({ params }) {
  await rendering(`shell/${params.slug}`);
  return { props: { slug: params.slug, at: Date.now() }, revalidate: 3600 };
}

export default function Shell({ slug, at }) {
  return (
    <p>
      {slug ?? 'loading'} at <time>{at}</time>
    </p>
  );
}
