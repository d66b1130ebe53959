import { Form, redirect } from 'react-router';
import { visitor } from '../session.js';

export async function loader({ request }) {
  const name = await visitor(request);
  if (!name) throw redirect('/login');
  return { name };
}

export default function Account({ loaderData }) {
  return (
    <>
      <h1>Account</h1>
      <p>Hello <b id="name">{loaderData.name}</b></p>
      <Form method="post" action="/logout"><button>Log out</button></Form>
    </>
  );
}
