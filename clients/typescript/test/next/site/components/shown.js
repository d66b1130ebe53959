import { Suspense } from 'react';

async function Later({ of, params }) {
  const { slug } = await params;
  const { text, at } = await of(slug);
  return (
    <p>
      <b>{text}</b> at <time>{at}</time>
    </p>
  );
}

/** Shows what a function returns for the parameter of the page, once it is known: a dynamic hole. */
export function Shown({ of, params }) {
  return (
    <Suspense fallback={<p>loading</p>}>
      <Later of={of} params={params} />
    </Suspense>
  );
}
