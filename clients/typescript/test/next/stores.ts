/** Buckets for tests on a real S3 server. */

import { randomUUID } from 'node:crypto';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';

import type { Cleanup } from '../engines.js';

/** A bucket with a random name. */
export interface TestBucket {
  endpoint: string;
  accessKeyId: string;
  secretAccessKey: string;
  name: string;
  s3: S3Client;
}

/** The reason for skipping tests that need a bucket; undefined if there is one. */
export const noBucket = process.env['ISR_TEST_S3']
  ? undefined
  : 'ISR_TEST_S3 names no S3 server; ./test sets it, with ISR_TEST_S3_ACCESS_KEY and ISR_TEST_S3_SECRET_KEY';

/** Creates a bucket on the server of ISR_TEST_S3. */
export async function newBucket(t: Cleanup): Promise<TestBucket> {
  const endpoint = process.env['ISR_TEST_S3'] ?? '';
  const credentials = {
    accessKeyId: process.env['ISR_TEST_S3_ACCESS_KEY'] ?? '',
    secretAccessKey: process.env['ISR_TEST_S3_SECRET_KEY'] ?? '',
  };
  const s3 = new S3Client({ endpoint, region: 'us-east-1', credentials, forcePathStyle: true });
  t.after(() => s3.destroy());
  const name = `next-${randomUUID()}`;
  await s3.send(new CreateBucketCommand({ Bucket: name }));
  return { endpoint, ...credentials, name, s3 };
}
