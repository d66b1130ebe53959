import { rendering } from '../../../control';

export const dynamic = 'force-static';
export const revalidate = 3600;

export const generateStaticParams = () => [{ slug: 'built' }];

export async function GET(_request, { params }) {
  const { slug } = await params;
  await rendering(`answers/${slug}`);
  return new Response(new Uint8Array([0, 255, 254, 10, 13]), {
    headers: { 'content-type': 'application/x-odd', 'x-rendered': String(Date.now()) },
  });
}
