import { useEffect } from 'react';
import { isRouteErrorResponse, Link, Links, Meta, Outlet, Scripts, ScrollRestoration } from 'react-router';
import styles from './site.css?url';

export const links = () => [{ rel: 'stylesheet', href: styles }, { rel: 'icon', href: 'data:,' }];

export function Layout({ children }) {
  // Tells the browser tests that the page is hydrated: from then on, a script follows links.
  useEffect(() => { document.documentElement.dataset.ready = ''; }, []);
  return (
    <html lang="en">
      <head><meta charSet="utf-8" /><Meta /><Links /></head>
      <body>
        <nav>
          <Link to="/">Home</Link> <Link to="/stories/rye" prefetch="intent">Rye</Link> <Link to="/notes">Notes</Link> <Link to="/account">Account</Link>
        </nav>
        <main>{children}</main>
        <ScrollRestoration />
        <Scripts />
      </body>
    </html>
  );
}

export default function App() {
  return <Outlet />;
}

export function ErrorBoundary({ error }) {
  return <h1>{isRouteErrorResponse(error) ? `${error.status} ${error.statusText}` : 'Internal error'}</h1>;
}
