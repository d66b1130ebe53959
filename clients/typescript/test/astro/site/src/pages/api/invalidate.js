export const POST = async ({ cache, request }) => {
  try {
    await cache.invalidate(await request.json());
    return new Response('done');
  } catch (error) {
    return new Response(String(error), { status: 502 });
  }
};
