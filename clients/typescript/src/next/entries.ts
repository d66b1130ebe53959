import type { Entry } from '../isr/entry.js';
import { periodsOf } from './answers.js';
import { type CacheControl, tagsOf, type Value } from './contract.js';

/** A value that has no row in the table. */
export interface Unstored {
  /** Names the value in the memory of values. */
  name: string;
  value: Value;
  /** The tags of its look-ups, in addition to the value's own. */
  tags?: readonly string[] | undefined;
  life: CacheControl;
  /** When its rendering began, in epoch milliseconds, and the purge sequence known then. */
  generatedAtMs: number;
  purgeSeq: number;
}

/** Returns the entry of a value that has no row in the table. It has no body. */
export function unstoredEntry({ name, value, tags, life, generatedAtMs, purgeSeq }: Unstored): Entry {
  return {
    htmlPointer: name,
    generatedAtMs,
    ...periodsOf(life),
    status: statusOf(value),
    tags: tagsOf(value, tags ? { tags } : {}),
    foreign: false,
    version: 0,
    generationId: '',
    key: '',
    route: '',
    headers: {},
    contentSha256: '',
    contentLength: 0,
    purgeSeq,
    build: 0,
    renderMs: 0,
    initialAgeSeconds: 0,
  };
}

/** Returns the HTTP status of a value. */
export function statusOf(value: Value): number {
  if (value === null) return 404;
  const status = value['status'];
  return typeof status === 'number' && Number.isInteger(status) && status >= 100 && status <= 999 ? status : 200;
}
