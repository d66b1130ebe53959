import { updateTag } from 'next/cache';

import { item } from '../../../data';
import { Shown } from '../../../shown';

/** Changes the data, and its cached copies. */
async function change(form) {
  'use server';
  const name = form.get('name');
  await fetch(`${process.env.SITE_DATA}/${name}`, { method: 'PUT', body: form.get('value') });
  updateTag(`item-${name}`);
}

export default function Item({ params }) {
  return (
    <main>
      <Shown of={item} params={params} />
      <form action={change}>
        <input name="name" />
        <input name="value" />
      </form>
    </main>
  );
}
