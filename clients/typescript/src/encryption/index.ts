export { envelopeEncryption } from './envelope.js';
export { KeyFile } from './keyfile.js';
export type { DataKey, KeyProvider } from './keyprovider.js';
