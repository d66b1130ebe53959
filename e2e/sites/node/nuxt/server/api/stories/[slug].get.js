export default defineEventHandler((event) => {
  if (getRouterParam(event, 'slug') !== 'rye') throw createError({ statusCode: 404 });
  return { text: 'Dense and dark.' };
});
