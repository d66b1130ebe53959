import { redirect } from 'react-router';
import { destroySession, getSession } from '../session.js';

export async function action({ request }) {
  const session = await getSession(request.headers.get('Cookie'));
  return redirect('/', { status: 303, headers: { 'Set-Cookie': await destroySession(session) } });
}
