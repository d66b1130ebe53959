// The models of the reference documents, as written there.
import { defineModel } from '@facetheory/tabletheory';

export const faceTheoryCacheMetadataModel = defineModel({
  name: 'FaceTheoryCacheMetadata',
  table: { name: process.env.FACETHEORY_CACHE_TABLE_NAME! },
  keys: {
    partition: { attribute: 'pk', type: 'S' },
    sort: { attribute: 'sk', type: 'S' },
  },
  attributes: [
    { attribute: 'pk', type: 'S', roles: ['pk'] },
    { attribute: 'sk', type: 'S', roles: ['sk'] },
    { attribute: 's3_key', type: 'S', required: true },
    { attribute: 'generated_at', type: 'N', required: true },
    { attribute: 'revalidate_seconds', type: 'N', required: true },
    { attribute: 'etag', type: 'S', optional: true },
    { attribute: 'ttl', type: 'N', roles: ['ttl'], optional: true },
  ],
});

export const faceTheoryCacheLeaseModel = defineModel({
  name: 'FaceTheoryCacheLease',
  table: { name: process.env.FACETHEORY_CACHE_TABLE_NAME! },
  keys: {
    partition: { attribute: 'pk', type: 'S' },
    sort: { attribute: 'sk', type: 'S' },
  },
  attributes: [
    { attribute: 'pk', type: 'S', roles: ['pk'] },
    { attribute: 'sk', type: 'S', roles: ['sk'] },
    { attribute: 'lease_token', type: 'S', required: true },
    { attribute: 'lease_expires_at', type: 'N', required: true },
    { attribute: 'ttl', type: 'N', roles: ['ttl'], optional: true },
  ],
});
