import { Form, redirect } from 'react-router';
import { commitSession, getSession } from '../session.js';

export async function action({ request }) {
  const session = await getSession(request.headers.get('Cookie'));
  session.set('name', String((await request.formData()).get('name')).slice(0, 40));
  return redirect('/account', { status: 303, headers: { 'Set-Cookie': await commitSession(session) } });
}

export default function LogIn() {
  return (
    <>
      <h1>Log in</h1>
      <Form method="post" action="/login"><input name="name" /><button>Log in</button></Form>
    </>
  );
}
