import { revalidatePath } from 'next/cache';
import { notes } from '../notes';

export const revalidate = 600;

async function add(form) {
  'use server';
  notes.push(String(form.get('text')).slice(0, 100));
  revalidatePath('/notes');
}

export default function Notes() {
  return (
    <main>
      <h1>Notes</h1>
      <ul>{notes.map((note) => <li key={note}>{note}</li>)}</ul>
      <form action={add}><input name="text" /><button>Add</button></form>
    </main>
  );
}
