import { made } from '../made';

export const revalidate = 3600;

export default async function Home() {
  await made('home');
  return (
    <p>
      Home at <time>{Date.now()}</time>
    </p>
  );
}
