import { cookies } from 'next/headers';
import { redirect } from 'next/navigation';

async function login(form) {
  'use server';
  (await cookies()).set('name', String(form.get('name')).slice(0, 40));
  redirect('/account');
}

export default function Login() {
  return (
    <main>
      <h1>Log in</h1>
      <form action={login}><input name="name" /><button>Log in</button></form>
    </main>
  );
}
