import { Suspense } from 'react';
import { Await, data } from 'react-router';

export const headers = ({ loaderHeaders }) => loaderHeaders;

// A part of the data is deferred: it is streamed after the page.
export function loader() {
  const steps = new Promise((resolve) => { setTimeout(resolve, 100, 'Knead, wait, bake.'); });
  return data({ title: 'Rye bread', steps }, { headers: { 'Cache-Control': 'public, max-age=0, s-maxage=600' } });
}

export default function Recipe({ loaderData }) {
  return (
    <>
      <h1>{loaderData.title}</h1>
      <Suspense fallback={<p>Looking it up</p>}>
        <Await resolve={loaderData.steps}>{(steps) => <p>{steps}</p>}</Await>
      </Suspense>
    </>
  );
}
