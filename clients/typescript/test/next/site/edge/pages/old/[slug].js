import { rendering } from '../../../control';

const slugs = ['built', 'absent'];

export const getStaticPaths = ({ locales }) => ({
  paths: locales.flatMap((locale) => slugs.map((slug) => ({ locale, params: { slug } }))),
  fallback: 'blocking',
});

export async function getStaticProps({ locale, params: { slug } }) {
  await rendering(`${locale}/${slug}`);
  if (slug === 'absent') return { notFound: true, revalidate: 3600 };
  return { props: { locale, at: Date.now() }, revalidate: slug === 'timed' ? 3 : 3600 };
}

export default function Old({ locale, at }) {
  return (
    <p>
      in <b>{locale}</b> at <time>{at}</time>
    </p>
  );
}
