export default defineEventHandler(() => notes);
