export default defineEventHandler((event) => {
  deleteCookie(event, 'session', { path: '/' });
  return sendRedirect(event, '/', 303);
});
