import { visitor } from '../session.js';

// The home page greets visitors by name. Its Cache-Control is a mistake that sites make: it is
// that of a shared page.
export const headers = () => ({ 'Cache-Control': 'public, max-age=0, s-maxage=2, stale-while-revalidate=60' });

export async function loader({ request }) {
  return { name: await visitor(request) ?? 'nobody', rendered: new Date().toISOString() };
}

export default function Home({ loaderData }) {
  return (
    <>
      <h1>Home</h1>
      <p>Hello <b id="name">{loaderData.name}</b>, at <time id="rendered">{loaderData.rendered}</time></p>
    </>
  );
}
