import { cookies } from 'next/headers';
import { redirect } from 'next/navigation';

async function logout() {
  'use server';
  (await cookies()).delete('name');
  redirect('/');
}

export default async function Account() {
  const name = (await cookies()).get('name')?.value;
  if (!name) redirect('/login');
  return (
    <main>
      <h1>Account</h1>
      <p>Hello <b id="name">{name}</b></p>
      <form action={logout}><button>Log out</button></form>
    </main>
  );
}
