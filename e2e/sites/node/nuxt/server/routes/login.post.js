export default defineEventHandler(async (event) => {
  setCookie(event, 'session', String((await readBody(event)).name).slice(0, 40), { path: '/', httpOnly: false });
  return sendRedirect(event, '/account', 303);
});
