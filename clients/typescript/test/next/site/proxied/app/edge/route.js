export const runtime = 'edge';

export async function GET(request) {
  const answer = await fetch(request.nextUrl.searchParams.get('url'), { next: { revalidate: 60 } });
  return new Response(await answer.text(), { headers: { 'x-runtime': process.env.NEXT_RUNTIME } });
}
