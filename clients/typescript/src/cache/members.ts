/** The options of the stores of a cache. One that is ignored, such as a misspelt tenant, could mix the pages of two sites. */

import type { Members } from '../options.js';
import type { StoreOptions } from './settings.js';

export const storeMembers: Members<StoreOptions> = {
  tableName: true,
  bucket: true,
  tenant: true,
  partition: true,
  ddb: true,
  s3: true,
  retentionSeconds: true,
  callSeconds: true,
  outageSeconds: true,
  clock: true,
  warn: true,
};
