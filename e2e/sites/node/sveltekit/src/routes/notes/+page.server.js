import { redirect } from '@sveltejs/kit';
import { notes } from '$lib/notes.js';

// A form changes the page. That purges the page, but not its data at /notes/__data.json, which
// is therefore private.
export function load({ setHeaders, isDataRequest }) {
  if (!isDataRequest) setHeaders({ 'Cache-Control': 'public, max-age=0, s-maxage=600' });
  return { notes };
}

export const actions = {
  default: async ({ request }) => {
    notes.push(String((await request.formData()).get('text')).slice(0, 100));
    redirect(303, '/notes');
  },
};
