import { rendering } from '../../renderings';

export const revalidate = 2;

export default async function Timed() {
  await rendering('timed');
  return <time>{Date.now()}</time>;
}
