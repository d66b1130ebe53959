'use client';

import { useEffect } from 'react';

// Tells the browser tests that the page is hydrated: from then on, a script follows links.
export default function Ready() {
  useEffect(() => { document.documentElement.dataset.ready = ''; }, []);
  return null;
}
