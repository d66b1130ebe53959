/**
 * The ISR cache under the names of TableTheory's subpath `/facetheory`, which FaceTheory's
 * adapter imports. Its types are what the types of both packages have in common.
 */

import type { Acquisition, Commit, Entry, Lease, LeaseRef, PageRef } from './isr/index.js';
import { defineModel } from './model.js';

export * from './isr/index.js';

/** The fields of a page that both packages return. */
export type FaceTheoryIsrMeta = Pick<Entry, 'htmlPointer' | 'generatedAtMs' | 'revalidateSeconds' | 'etag'>;
/** The fields of a lease that both packages return. */
export type FaceTheoryIsrLease = Pick<Lease, 'leaseToken' | 'leaseExpiresAtMs'>;
/** The arguments of `get`. */
export type FaceTheoryIsrMetaStoreGetArgs = PageRef;
/** The arguments of `tryAcquireLease`. */
export type FaceTheoryIsrMetaStoreTryAcquireLeaseArgs = Acquisition;
/** The arguments of `commitGeneration`. */
export type FaceTheoryIsrMetaStoreCommitGenerationArgs = Commit;
/** The arguments of `releaseLease`. */
export type FaceTheoryIsrMetaStoreReleaseLeaseArgs = LeaseRef & { leaseOwner?: string };

const keys = { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } } as const;
const keyed = [
  { attribute: 'pk', type: 'S', roles: ['pk'] },
  { attribute: 'sk', type: 'S', roles: ['sk'] },
] as const;
const ttl = { attribute: 'ttl', type: 'N', roles: ['ttl'], optional: true } as const;

/** Makes the model of META rows, with the attributes of the reference documents, for transactions of the application's own. */
export function defineFaceTheoryCacheMetadataModel(tableName: string) {
  return defineModel({
    name: 'FaceTheoryCacheMetadata',
    table: { name: tableName },
    keys,
    attributes: [
      ...keyed,
      { attribute: 's3_key', type: 'S' },
      { attribute: 'generated_at', type: 'N' },
      { attribute: 'revalidate_seconds', type: 'N' },
      { attribute: 'etag', type: 'S', optional: true },
      ttl,
    ],
  });
}

/** Makes the model of LOCK rows, with the attributes of the reference documents. */
export function defineFaceTheoryCacheLeaseModel(tableName: string) {
  return defineModel({
    name: 'FaceTheoryCacheLease',
    table: { name: tableName },
    keys,
    attributes: [...keyed, { attribute: 'lease_token', type: 'S' }, { attribute: 'lease_expires_at', type: 'N' }, ttl],
  });
}
