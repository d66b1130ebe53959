import { error } from '@sveltejs/kit';

export function load({ params, setHeaders }) {
  if (params.slug !== 'rye') error(404, 'No such story');
  setHeaders({ 'Cache-Control': 'public, max-age=0, s-maxage=600' });
  return { text: 'Dense and dark.' };
}
