/** Transitions of a registry of releases, under the names of TableTheory's subpath `/release-state`. */

import type { TheorydbClient } from './client.js';
import { InvalidInputError, InvalidModelError } from './errors.js';
import { isOptional, isStamp, type Model } from './model.js';
import { checkOptions, type Members } from './options.js';
import type { TransactAction } from './transact.js';
import { formatValue } from './value.js';

/** A transition of a row, and the event that records it. Models are named as the client knows them. */
export interface ReleaseStateTransitionInput {
  /** The model of the row, which has an attribute with the role `version`. */
  actualModel: string;
  actualKey: Record<string, unknown>;
  /** The attributes to set. The row is created if it is missing and these include all required ones. */
  set: Record<string, unknown>;
  eventModel: string;
  /** The event. It must not exist yet. */
  eventItem: Record<string, unknown>;
  /** The model and the item of a message to send later, which must not exist yet: both or none. */
  outboxModel?: string;
  outboxItem?: Record<string, unknown>;
  /** The version that the row must have. Default: any. */
  expectedVersion?: number;
  /** The name of the version attribute. Default: `version`. */
  versionAttribute?: string;
}

const members: Members<ReleaseStateTransitionInput> = {
  actualModel: true,
  actualKey: true,
  set: true,
  eventModel: true,
  eventItem: true,
  outboxModel: true,
  outboxItem: true,
  expectedVersion: true,
  versionAttribute: true,
};

/**
 * Changes a row, increments its version and records the event, all or nothing. What the
 * release does elsewhere is not part of the transaction: retry or reconcile it.
 *
 * @throws VersionConflictError if the row has another version; ConditionFailedError if the row
 * is missing and cannot be created, or the event or the message exists; InvalidInputError,
 * InvalidModelError, and the other errors of `transactWrite`
 */
export async function transitionReleaseState<M extends Model>(
  client: TheorydbClient<M>,
  input: ReleaseStateTransitionInput,
): Promise<void> {
  checkOptions('transitionReleaseState', input ?? null, members);
  const { actualKey, set, expectedVersion, versionAttribute = 'version' } = input;
  const model = client.usable(input.actualModel);
  if (model.version?.attribute !== versionAttribute) {
    throw new InvalidModelError(
      `the model ${model.name} has no attribute ${versionAttribute} with the role version, which counts its transitions`,
    );
  }
  const fields = namesOf('set', set);
  if (fields.includes(versionAttribute)) {
    throw new InvalidInputError(`set has ${versionAttribute}: a transition increments it; pass expectedVersion`);
  }
  if ((input.outboxModel === undefined) !== (input.outboxItem === undefined)) {
    throw new InvalidInputError('outboxModel and outboxItem belong together: set both, or none');
  }
  namesOf('actualKey', actualKey);
  const version = expectedVersion === undefined ? {} : { [versionAttribute]: expectedVersion };
  const kind = isComplete(model, fields) && !expectedVersion ? 'upsert' : 'update';
  const added = [
    { model: input.eventModel, item: input.eventItem },
    { model: input.outboxModel, item: input.outboxItem },
  ].filter(({ model }) => model !== undefined);
  const actions = [
    { kind, model: input.actualModel, item: { ...set, ...actualKey, ...version }, fields },
    ...added.map((row) => ({ kind: 'put', ...row, ifNotExists: true })),
  ];
  await client.transactWrite(actions as unknown as TransactAction<M>[]);
}

/** Reports whether the attributes include all that an item of the model must have. */
function isComplete(model: Model, fields: readonly string[]): boolean {
  return [...model.attributes.values()].every(
    (declared) =>
      isOptional(declared) || isStamp(declared) || model.keys.includes(declared) || fields.includes(declared.attribute),
  );
}

function namesOf(name: string, members: unknown): string[] {
  const names = typeof members === 'object' && members !== null ? Object.keys(members) : [];
  if (names.length > 0) return names;
  throw new InvalidInputError(`${name} must be an object with at least one attribute (got ${formatValue(members)})`);
}
