import { updateTag } from 'next/cache';

async function act(form) {
  'use server';
  updateTag(form.get('tag'));
}

export default function Acted() {
  return (
    <form action={act}>
      <input name="tag" />
    </form>
  );
}
