// The home page greets visitors by name. Its Cache-Control is a mistake that sites make: it is
// a shared page's.
export function load({ cookies, setHeaders }) {
  setHeaders({ 'Cache-Control': 'public, max-age=0, s-maxage=2, stale-while-revalidate=60' });
  return { name: cookies.get('session') ?? 'nobody', rendered: new Date().toISOString() };
}
