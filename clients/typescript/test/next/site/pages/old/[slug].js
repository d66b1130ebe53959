import { rendering } from '../../control';

export const getStaticPaths = () => ({
  paths: ['built', 'kept', 'absent'].map((slug) => ({ params: { slug } })),
  fallback: 'blocking',
});

export async function getStaticProps({ params }) {
  await rendering(`old/${params.slug}`);
  if (params.slug === 'none' || (params.slug === 'absent' && !process.env.SITE_CONTROL))
    return { notFound: true, revalidate: 3600 };
  if (params.slug === 'moved') return { redirect: { destination: '/', permanent: false }, revalidate: 3600 };
  return { props: { slug: params.slug, at: Date.now() }, revalidate: 3600 };
}

export default function Old({ slug, at }) {
  return (
    <p>
      {slug} at <time>{at}</time>
    </p>
  );
}
