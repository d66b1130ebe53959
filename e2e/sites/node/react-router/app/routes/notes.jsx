import { Form, redirect } from 'react-router';
import { notes } from '../notes.js';

export const headers = () => ({ 'Cache-Control': 'public, max-age=0, s-maxage=600' });

export function loader() {
  return { notes };
}

// A script posts the form to /notes.data, and gets the redirect in the body of a response:
// Content-Location names the page that has changed.
export async function action({ request }) {
  notes.push(String((await request.formData()).get('text')).slice(0, 100));
  return redirect('/notes', { status: 303, headers: { 'Content-Location': '/notes' } });
}

export default function Notes({ loaderData }) {
  return (
    <>
      <h1>Notes</h1>
      <ul>{loaderData.notes.map((note, i) => <li key={i}>{note}</li>)}</ul>
      <Form method="post" action="/notes"><input name="text" /><button>Add</button></Form>
    </>
  );
}
