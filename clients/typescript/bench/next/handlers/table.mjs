// This package's handler, with clients that count their calls.
const { createRequire } = await import('node:module');
const require = createRequire(process.env.BENCH_HANDLER ?? import.meta.url);
const { createCacheHandler } = await import(/* turbopackIgnore: true */ process.env.BENCH_HANDLER);
const { DynamoDBClient } = require('@aws-sdk/client-dynamodb');
const { S3Client } = require('@aws-sdk/client-s3');

const counted = (client) => {
  const count = (next) => (args) => {
    globalThis.cacheCalls = (globalThis.cacheCalls ?? 0) + 1;
    return next(args);
  };
  client.middlewareStack.add(count, { step: 'initialize', name: 'count' });
  return client;
};

export default createCacheHandler({
  ddb: counted(new DynamoDBClient({})),
  s3: counted(new S3Client({ forcePathStyle: true })),
  trustSeconds: Number(process.env.BENCH_TRUST_SECONDS ?? 0),
});
