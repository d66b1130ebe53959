import { rendering } from '../control';

export const revalidate = 3600;

export default async function Home() {
  await rendering('home');
  return (
    <p>
      Home at <time>{Date.now()}</time>
    </p>
  );
}
