import Image from 'next/image';

export const revalidate = 5;

export default function Home() {
  return (
    <main>
      <h1>Home</h1>
      <img src="/loaf.svg" alt="A loaf" width="64" height="64" />
      <Image src="/cloth.png" alt="A cloth" width="64" height="64" />
      <p>Rendered <time id="rendered">{new Date().toISOString()}</time></p>
    </main>
  );
}
