// The address bar is the state of the console: a view is a path, its choices are the query.
import { html, useEffect, useState } from './dom.js';

const changed = new EventTarget();

// go shows an address of the console. With replace the current one leaves the history.
export function go(address, { replace = false } = {}) {
  const url = new URL(address, location.href);
  if (url.origin !== location.origin) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', url.pathname + url.search);
  changed.dispatchEvent(new Event('change'));
}

// useAddress returns the present path and query.
export function useAddress() {
  const [at, set] = useState(location.pathname + location.search);
  useEffect(() => {
    const follow = () => set(location.pathname + location.search);
    changed.addEventListener('change', follow);
    addEventListener('popstate', follow);
    return () => {
      changed.removeEventListener('change', follow);
      removeEventListener('popstate', follow);
    };
  }, []);
  const url = new URL(at, location.origin);
  return { path: url.pathname, query: url.searchParams };
}

// address returns a path with those parameters that have a value.
export function address(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value != null && value !== '') query.set(name, String(value));
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

// pageAddress is the view of a page.
export const pageAddress = (page, more = {}) => address('/page', { key: page.key, tenant: page.tenant, ...more });

// A Link goes to a view without loading the document again.
export function Link({ to, children, ...rest }) {
  const follow = (event) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return html`<a href=${to} onClick=${follow} ...${rest}>${children}</a>`;
}
