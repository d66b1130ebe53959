import { revalidatePath, revalidateTag } from 'next/cache';

export async function POST(request) {
  const { path, type, tag, profile } = await request.json();
  if (path) revalidatePath(path, type);
  if (tag) revalidateTag(tag, profile ?? { expire: 0 });
  return new Response('accepted');
}
