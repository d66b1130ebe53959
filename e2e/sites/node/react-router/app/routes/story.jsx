import { data } from 'react-router';

// The headers of the loader become those of the page and of its data.
export const headers = ({ loaderHeaders, errorHeaders }) => errorHeaders ?? loaderHeaders;

export function loader({ params }) {
  if (params.slug === 'burnt') throw new Error('The oven is on fire');
  if (params.slug !== 'rye') throw data('No such story', { status: 404, statusText: 'Not Found' });
  return data({ text: 'Dense and dark.' }, { headers: { 'Cache-Control': 'public, max-age=0, s-maxage=600' } });
}

export default function Story({ loaderData }) {
  return (
    <>
      <h1>Rye</h1>
      <p>{loaderData.text}</p>
    </>
  );
}
