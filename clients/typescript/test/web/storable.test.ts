/** Which responses are stored, and which requests are answered: spec/vectors/storable.json. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { judge, staleIfErrorOf, withdraws } from '../../src/web/judge.js';
import { initialAgeOf, type OptIn } from '../../src/web/lifetime.js';
import { settingsOf } from '../../src/web/options.js';
import { project } from '../../src/web/projection.js';
import { etagOf, fieldsOf, storedFields } from '../../src/web/storedfields.js';
import { specFile } from '../spec.js';

type Line = string | { base64: string } | { repeat: string; times: number };
type Header = Record<string, Line[]>;

interface ResponseVector {
  name: string;
  config?: {
    opt_in?: OptIn;
    stale_seconds?: number;
    stale_if_error_seconds?: number;
    max_body_bytes?: number;
    max_header_bytes?: number;
    max_tags?: number;
  };
  requested_ms?: number;
  status: number;
  headers?: Header;
  verdict: 'stored' | 'refused' | 'failed';
  reason?: string;
  withdraws?: boolean;
  fresh_seconds?: number;
  stale_seconds?: number;
  stale_if_error_seconds?: number;
  age_seconds?: number;
  tags?: string[];
}

interface Vectors {
  responses: ResponseVector[];
  fields: { name: string; headers: Header; stored?: Header; etag?: string }[];
  requests: {
    name: string;
    method: string;
    target: string;
    headers?: Header;
    ignore_cookies?: string[];
    bypass?: string;
    key?: string;
  }[];
}

const vectors: Vectors = JSON.parse(readFileSync(specFile('vectors/storable.json'), 'utf8'));

/** Returns a line as a header has it: each character is a byte. */
function bytesOf(line: Line): string {
  if (typeof line === 'string') return Buffer.from(line).toString('latin1');
  return 'base64' in line ? Buffer.from(line.base64, 'base64').toString('latin1') : line.repeat.repeat(line.times);
}

function headersOf(header: Header = {}): Headers {
  const headers = new Headers();
  for (const [name, lines] of Object.entries(header)) for (const line of lines) headers.append(name, bytesOf(line));
  return headers;
}

/** Returns this package's verdict on a vector, in the form of the vector's answer. */
function answerOf({ config = {}, requested_ms, status, headers: header }: ResponseVector) {
  const headers = headersOf(header);
  const bounds = {
    maxBodyBytes: config.max_body_bytes ?? 10 << 20,
    staleSeconds: config.stale_seconds ?? 0,
    staleIfErrorSeconds: config.stale_if_error_seconds ?? 0,
    ...(config.opt_in && { optIn: config.opt_in }),
    ...(config.max_header_bytes && { maxHeaderBytes: config.max_header_bytes }),
    ...(config.max_tags && { maxTags: config.max_tags }),
  };
  const verdict = judge(status, headers, bounds, requested_ms);
  const common = { withdraws: withdraws(status, headers), age: initialAgeOf(headers, requested_ms) };
  if ('failed' in verdict) return { ...common, verdict: 'failed' };
  if ('refused' in verdict) {
    assert.equal(verdict.withdraws, common.withdraws);
    return { ...common, verdict: 'refused', reason: verdict.refused };
  }
  const stored = fieldsOf({ headers: storedFields(headers) });
  return {
    ...common,
    verdict: 'stored',
    fresh: verdict.revalidateSeconds,
    stale: verdict.staleSeconds,
    staleIfError: staleIfErrorOf(stored, bounds),
    tags: verdict.tags,
  };
}

function expected(v: ResponseVector) {
  const common = { withdraws: v.withdraws ?? false, age: v.age_seconds ?? 0, verdict: v.verdict };
  if (v.verdict === 'failed') return common;
  if (v.verdict === 'refused') return { ...common, reason: v.reason };
  return {
    ...common,
    fresh: v.fresh_seconds,
    stale: v.stale_seconds ?? 0,
    staleIfError: v.stale_if_error_seconds ?? 0,
    tags: v.tags ?? [],
  };
}

test('responses', () => {
  for (const v of vectors.responses) assert.deepEqual(answerOf(v), expected(v), v.name);
});

test('fields that are stored', () => {
  for (const { name, headers, stored, etag = '' } of vectors.fields) {
    const given = headersOf(headers);
    const kept = fieldsOf({ headers: storedFields(given) });
    assert.deepEqual([...kept], [...headersOf(stored)], name);
    assert.equal(etagOf(given) ?? '', etag, name);
  }
});

test('requests', () => {
  for (const { name, method, target, headers, ignore_cookies = [], bypass = '', key = '' } of vectors.requests) {
    const options = { hosts: ['example.com'], query: ['page'], ignoreCookies: ignore_cookies };
    const settings = settingsOf({ ...options, tableName: 't', bucket: 'b' }, { AWS_REGION: 'us-east-1' });
    const p = project(new Request(`http://example.com${target}`, { method, headers: headersOf(headers) }), settings);
    assert.deepEqual('bypass' in p ? [p.bypass, ''] : ['', p.cacheKey], [bypass, key], name);
  }
});
