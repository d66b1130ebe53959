import { made } from '../../../made';

export const dynamic = 'force-static';
export const revalidate = 3600;

export const generateStaticParams = () => [];

export async function GET(_request, { params }) {
  const { slug } = await params;
  await made(`answers/${slug}`);
  return new Response(new Uint8Array([0, 255, 254, 10, 13]), {
    headers: { 'content-type': 'application/x-odd', 'x-made': String(Date.now()) },
  });
}
