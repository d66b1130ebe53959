export { default, generateStaticParams } from '../../../../app/built/[slug]/page';

export const revalidate = 3600;
