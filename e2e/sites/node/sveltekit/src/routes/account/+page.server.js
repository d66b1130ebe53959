import { redirect } from '@sveltejs/kit';

export function load({ cookies }) {
  const name = cookies.get('session');
  if (!name) redirect(302, '/login');
  return { name };
}
