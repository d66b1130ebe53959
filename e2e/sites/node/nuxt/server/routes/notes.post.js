export default defineEventHandler(async (event) => {
  notes.push(String((await readBody(event)).text).slice(0, 100));
  return sendRedirect(event, '/notes', 303);
});
