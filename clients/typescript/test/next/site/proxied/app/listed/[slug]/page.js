export { default, generateStaticParams } from '../../../../app/listed/[slug]/page';
