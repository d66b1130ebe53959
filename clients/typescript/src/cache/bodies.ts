import { createHash } from 'node:crypto';

import { GetObjectCommand, HeadObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';

import { bodyPrefix } from '../isr/partition.js';
import { withTimeout } from '../retry.js';

/** The largest body, in bytes. */
export const largestBody = 64 << 20;
/** The timeout of one request, in milliseconds. */
const timeoutMs = 10_000;

/** META's description of a body. */
export interface Described {
  htmlPointer: string;
  contentSha256: string;
  contentLength: number;
}

/**
 * The stored bodies of generations: objects of one bucket, under unique keys
 * `bodies/<hex sha256 of pk>/<generation id>`, the keys of `isr serve`.
 */
export class Bodies {
  readonly #s3: S3Client;
  readonly #bucket: string;

  constructor(s3: S3Client, bucket: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
  }

  /** Returns the key of a generation's body. */
  static key(pk: string, generationId: string): string {
    return bodyPrefix(pk) + generationId;
  }

  /**
   * Stores a body under a new key, durably once this resolves. If the object already exists,
   * an earlier attempt of the SDK stored it: no other process knows the key. The body has at
   * most {@link largestBody} bytes.
   */
  async put(key: string, body: Buffer): Promise<Described> {
    const command = new PutObjectCommand({
      Bucket: this.#bucket,
      Key: key,
      Body: body,
      ContentLength: body.length,
      ContentType: 'application/octet-stream',
      ChecksumAlgorithm: 'CRC32',
      IfNoneMatch: '*',
    });
    try {
      await withTimeout(timeoutMs, undefined, (abortSignal) => this.#s3.send(command, { abortSignal }));
    } catch (error) {
      const refused = (error as { $metadata?: { httpStatusCode?: number } })?.$metadata?.httpStatusCode === 412;
      if (!refused || !(await this.has(key, body.length))) throw error;
    }
    return { htmlPointer: key, contentSha256: sha256(body), contentLength: body.length };
  }

  /** Reports whether a body of that length exists. */
  async has(key: string, length: number): Promise<boolean> {
    const command = new HeadObjectCommand({ Bucket: this.#bucket, Key: key });
    const head = await withTimeout(timeoutMs, undefined, (abortSignal) =>
      this.#s3.send(command, { abortSignal }),
    ).catch((error: unknown) => {
      if (isMissing(error)) return undefined;
      throw error;
    });
    return head?.ContentLength === length;
  }

  /** Returns the body that META describes; undefined if it is missing or differs. */
  async get(described: Described): Promise<Uint8Array | undefined> {
    if (described.contentLength > largestBody) return undefined;
    const command = new GetObjectCommand({ Bucket: this.#bucket, Key: described.htmlPointer });
    const body = await withTimeout(timeoutMs, undefined, async (abortSignal) => {
      const answer = await this.#s3.send(command, { abortSignal });
      return answer.ContentLength === described.contentLength ? answer.Body?.transformToByteArray() : undefined;
    }).catch((error: unknown) => {
      if (isMissing(error)) return undefined;
      throw error;
    });
    return body && sha256(body) === described.contentSha256 ? body : undefined;
  }
}

/** Returns the hex SHA-256 of a body. */
export function sha256(body: Uint8Array): string {
  return createHash('sha256').update(body).digest('hex');
}

/** Reports whether S3 has no such key. To callers without the right to list the bucket it answers 403, not 404. */
export function isMissing(error: unknown): boolean {
  const status = (error as { $metadata?: { httpStatusCode?: number } })?.$metadata?.httpStatusCode;
  return status === 404 || status === 403;
}
