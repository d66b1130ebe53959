export default async function handler(request, response) {
  const { path, only } = request.query;
  await response.revalidate(path, { unstable_onlyGenerated: only !== undefined });
  response.send('rendered');
}
