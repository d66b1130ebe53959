/**
 * An HTTP server for the part of AWS KMS's protocol (JSON 1.1) that envelopes use. It
 * records requests that KMS would not accept. A sealed key is random bytes that only this
 * server can resolve.
 */

import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KMSClient } from '@aws-sdk/client-kms';

import type { Cleanup } from '../engines.js';

interface SealedKey {
  keyId: string;
  plain: Buffer;
  context: string;
}

/** An error response of KMS. */
export class Failure extends Error {
  constructor(
    override readonly name: string,
    message = '',
  ) {
    super(message);
  }
}

type Body = Record<string, unknown>;

const prefix = 'arn:aws:kms:eu-central-1:123456789012:key/';

export class FakeKms {
  /** Key IDs by themselves and by alias. */
  readonly keys = new Map<string, string>();
  readonly #sealed = new Map<string, SealedKey>();
  /** The next responses. */
  readonly failures: Failure[] = [];
  /** The number of Decrypt calls. */
  decrypts = 0;

  constructor(...ids: string[]) {
    for (const id of ids) this.keys.set(id, id);
  }

  /** Starts the server, which is closed after the test, and returns a client of it. */
  async client(t: Cleanup): Promise<KMSClient> {
    const server = createServer(async (request, response) => {
      response.setHeader('Content-Type', 'application/x-amz-json-1.1');
      try {
        response.end(JSON.stringify(await this.#answer(request)));
      } catch (error) {
        const { name, message } = error as Failure;
        response.statusCode = 400;
        response.end(JSON.stringify({ __type: name, message }));
      }
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const client = new KMSClient({
      endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      region: 'eu-central-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    });
    t.after(() => {
      client.destroy();
      server.close();
    });
    return client;
  }

  async #answer(request: IncomingMessage): Promise<Body> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    if (!/\/eu-central-1\/kms\/aws4_request/.test(request.headers.authorization ?? '')) {
      throw new Failure('MissingAuthenticationTokenException');
    }
    const failure = this.failures.shift();
    if (failure !== undefined) throw failure;
    const body: Body = JSON.parse(Buffer.concat(chunks).toString());
    switch (request.headers['x-amz-target']) {
      case 'TrentService.GenerateDataKey':
        return this.#generate(body);
      case 'TrentService.Decrypt':
        this.decrypts++;
        return this.#decrypt(body);
    }
    throw new Failure('UnknownOperationException');
  }

  #generate(given: Body): Body {
    const { KeyId, KeySpec, EncryptionContext, ...others } = given;
    if (KeySpec !== 'AES_256' || Object.keys(others).length > 0) throw new Failure('ValidationException');
    const [keyId, plain, blob] = [this.#key(KeyId), randomBytes(32), randomBytes(184)];
    this.#sealed.set(blob.toString('base64'), { keyId, plain, context: JSON.stringify(EncryptionContext) });
    return { CiphertextBlob: blob.toString('base64'), Plaintext: plain.toString('base64'), KeyId: prefix + keyId };
  }

  #decrypt(given: Body): Body {
    const { KeyId, CiphertextBlob, EncryptionContext, ...others } = given;
    if (Object.keys(others).length > 0) throw new Failure('ValidationException');
    const sealed = this.#sealed.get(String(CiphertextBlob));
    if (sealed === undefined) throw new Failure('InvalidCiphertextException');
    if (this.#key(KeyId) !== sealed.keyId) {
      throw new Failure('IncorrectKeyException', 'The key ID does not identify the key that was used.');
    }
    if (JSON.stringify(EncryptionContext) !== sealed.context) throw new Failure('InvalidCiphertextException');
    return {
      Plaintext: sealed.plain.toString('base64'),
      KeyId: prefix + sealed.keyId,
      EncryptionAlgorithm: 'SYMMETRIC_DEFAULT',
    };
  }

  /** Resolves a key ID, an alias or the ARN of a key. */
  #key(id: unknown): string {
    const found = this.keys.get(String(id).replace(prefix, ''));
    if (found === undefined) throw new Failure('NotFoundException', `Key '${id}' does not exist`);
    return found;
  }
}

/** The ARN of a key. */
export function arn(id: string): string {
  return prefix + id;
}
