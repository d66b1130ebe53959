import { cookies, headers } from 'next/headers';

export const dynamic = 'force-dynamic';

export default async function Now() {
  const name = (await cookies()).get('name')?.value ?? 'nobody';
  const agent = (await headers()).get('user-agent') ?? 'nothing';
  return (
    <main>
      <h1>Now</h1>
      <p>For <b id="name">{name}</b>, who uses <i id="agent">{agent}</i></p>
      <p>Rendered <time id="rendered">{new Date().toISOString()}</time></p>
    </main>
  );
}
