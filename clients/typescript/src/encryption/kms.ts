/** Master keys in AWS KMS. Only programs that import this entry need `@aws-sdk/client-kms`. */

import { DecryptCommand, GenerateDataKeyCommand, type KMSClient } from '@aws-sdk/client-kms';

import { TamperedError, UnknownKeyError } from '../errors.js';
import type { DataKey, KeyProvider } from './keyprovider.js';

/**
 * KMS authenticates it, and CloudTrail logs it. It separates these data keys from other uses of
 * the same key; the item is not in it, but in the additional data of the attributes.
 */
const encryptionContext = { purpose: 'tabletheory-envelope' };

/**
 * A key provider with master keys in AWS KMS. Writing an item with encrypted attributes
 * costs one GenerateDataKey, reading one costs one Decrypt for each different write from
 * which its encrypted attributes come.
 */
export class KmsKeys implements KeyProvider {
  readonly #client: KMSClient;
  /** The current key first. */
  readonly #keyIds: readonly [string, ...string[]];

  /**
   * Seals with the symmetric KMS key `keyId`: a key ID, a key ARN, an alias name (alias/…) or
   * an alias ARN. It opens only data keys that were sealed by `keyId` or one of the previous
   * keys: otherwise an attacker with write access to the table could plant values that were
   * sealed with a key of another account.
   *
   * KMS's automatic rotation of key material needs no change here. To switch to another key,
   * pass the old one as previous, by its key ID or ARN: an alias that now points to the new
   * key no longer names it. Callers need kms:GenerateDataKey on the current key and
   * kms:Decrypt on all of them. A policy may require the encryption context
   * {"purpose": "tabletheory-envelope"}.
   */
  constructor(client: KMSClient, keyId: string, ...previous: string[]) {
    this.#client = client;
    this.#keyIds = [keyId, ...previous];
  }

  /** @throws KMS's own errors */
  async newDataKey(signal?: AbortSignal): Promise<DataKey> {
    const command = new GenerateDataKeyCommand({
      KeyId: this.#keyIds[0],
      KeySpec: 'AES_256',
      EncryptionContext: encryptionContext,
    });
    const answer = await this.#client.send(command, options(signal));
    return { plain: keyOf(answer.Plaintext), sealed: keyOf(answer.CiphertextBlob) };
  }

  /** Asks KMS with one key after the other until it accepts one. @throws UnknownKeyError, TamperedError, KMS's own errors */
  async openDataKey(sealed: Uint8Array, signal?: AbortSignal): Promise<Uint8Array> {
    for (const KeyId of this.#keyIds) {
      const command = new DecryptCommand({ KeyId, CiphertextBlob: sealed, EncryptionContext: encryptionContext });
      try {
        return keyOf((await this.#client.send(command, options(signal))).Plaintext);
      } catch (error) {
        const name = error instanceof Error ? error.name : '';
        if (name === 'InvalidCiphertextException') {
          throw new TamperedError('the data key was modified, or sealed for another purpose', { cause: error });
        }
        if (name !== 'IncorrectKeyException') throw error;
      }
    }
    throw new UnknownKeyError(
      `the data key was not sealed by any of the KMS keys ${this.#keyIds.join(', ')}; pass the ID of the previous key to KmsKeys`,
    );
  }
}

function options(signal: AbortSignal | undefined) {
  return signal === undefined ? {} : { abortSignal: signal };
}

/** Returns a key of an answer; an empty one, which its user refuses, if it has none. */
function keyOf(key: Uint8Array | undefined): Uint8Array {
  return key ?? new Uint8Array();
}
