import { InvalidInputError, MovedError } from '../errors.js';
import { type Backend, readRow } from './backend.js';
import type { Settings } from './config.js';
import { notExists, updateOf } from './expression.js';
import { sameAs } from './fence.js';
import type { LogChange, PlannedWrite } from './groupcommit.js';
import { PURGE_LOG_PK, SK } from './names.js';
import { countKind, N, type Row, read, requirePresent, S, text, textKind } from './row.js';
import { onRow, type Refusal, rowId } from './transaction.js';

/** How often a deployment is attempted while other builds are deployed. */
const maxAttempts = 8;

/**
 * Returns the sequence at which a build was deployed. If the row BUILD has this id, it is the
 * row's sequence; otherwise a new change of the log makes this the current build. If processes
 * of several builds start at the same time, the last one's build is the current one.
 * @throws InvalidInputError MalformedRowError MovedError UnknownOutcomeError
 */
export async function build(of: Settings, signal: AbortSignal | undefined, id: string): Promise<number> {
  if (typeof id !== 'string' || !/^[ -~]{1,256}$/.test(id)) {
    throw new InvalidInputError(
      `the id of the build is ${JSON.stringify(id)?.slice(0, 100)}: expected 1 to 256 printable ASCII characters`,
    );
  }
  for (let attempt = 1; ; attempt++) {
    const row = await readRow(of.backend, signal, PURGE_LOG_PK, SK.build);
    const deployed = row && buildOf(row);
    if (deployed?.id === id) return deployed.seq;
    try {
      return await of.log.append(new Deployment(of.backend, id, row), signal);
    } catch (error) {
      if (!(error instanceof MovedError) || attempt === maxAttempts) throw error;
    }
  }
}

function buildOf(row: Row): { id: string; seq: number } {
  requirePresent(row, 'value', textKind);
  requirePresent(row, 'seq', countKind);
  return { id: text(row, 'value'), seq: read(row, 'seq', countKind) };
}

/** Makes a build the current one, on condition that BUILD is what was read. */
class Deployment implements LogChange {
  readonly name: string;
  readonly writes = [rowId(PURGE_LOG_PK, SK.build)];
  readonly purges = [];
  readonly confirm = false;
  readonly markLifetimeSeconds = 0;
  readonly #backend: Backend;
  readonly #id: string;
  readonly #replaced: Row | undefined;

  constructor(b: Backend, id: string, replaced: Row | undefined) {
    this.name = `deployment of the build ${id}`;
    this.#backend = b;
    this.#id = id;
    this.#replaced = replaced;
  }

  plan(seq: number): PlannedWrite[] {
    // Its sequence grows with every new build.
    const unchanged = this.#replaced ? sameAs({ seq: [':old_seq', this.#replaced['seq']] }) : notExists;
    const update = updateOf({ value: S(this.#id), seq: N(seq) }, unchanged);
    return [
      {
        action: { purpose: 'build', item: { Update: { ...onRow(this.#backend, PURGE_LOG_PK, SK.build), ...update } } },
      },
    ];
  }

  refused(why: Refusal): Error | undefined {
    return why.has('build') ? new MovedError(`${this.name}: another build was deployed at the same time`) : undefined;
  }
}
