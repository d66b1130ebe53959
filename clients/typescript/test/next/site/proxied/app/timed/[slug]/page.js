export { default, generateStaticParams } from '../../../../app/timed/[slug]/page';

export const revalidate = 3;
