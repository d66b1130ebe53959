import { createCookieSessionStorage } from 'react-router';

export const { getSession, commitSession, destroySession } = createCookieSessionStorage({
  cookie: { name: 'session', path: '/', httpOnly: true, sameSite: 'lax', secrets: ['only-for-tests'] },
});

// visitor returns the name in the session of a request, undefined if there is none.
export async function visitor(request) {
  return (await getSession(request.headers.get('Cookie'))).get('name');
}
