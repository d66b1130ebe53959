import { InvalidInputError } from '../errors.js';

/** The packages that a server loads with its first look-up. They are peers of this one: npm may not have installed them. */
const peers: readonly string[] = ['@aws-sdk/client-dynamodb', '@aws-sdk/client-s3'];

/** Looks for what the servers of a build will load. @throws InvalidInputError if a package is missing */
export function checkPeers(): void {
  // The module is part of bundles for the edge runtime: it has no import of `node:module`.
  const require =
    process.env['NEXT_RUNTIME'] === 'edge'
      ? undefined
      : process.getBuiltinModule('node:module').createRequire(import.meta.url);
  for (const name of peers) {
    try {
      require?.resolve(name);
    } catch (cause) {
      throw new InvalidInputError(`${name} is missing: servers of this build need it; npm install ${name}`, { cause });
    }
  }
}
