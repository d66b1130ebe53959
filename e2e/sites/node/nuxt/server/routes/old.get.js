export default defineEventHandler((event) => sendRedirect(event, '/stories/rye', 301));
