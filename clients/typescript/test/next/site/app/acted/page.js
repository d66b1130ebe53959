import * as cache from 'next/cache';

async function act(form) {
  'use server';
  cache.updateTag(form.get('tag')); // of Next.js 16
}

export default function Acted() {
  return (
    <form action={act}>
      <input name="tag" />
    </form>
  );
}
