export const dynamic = 'force-dynamic';

/** The calls of this server to the table and the bucket since the last request. */
export function GET() {
  const calls = globalThis.cacheCalls ?? 0;
  globalThis.cacheCalls = 0;
  return Response.json(calls);
}
