import type { Warn } from '../../isr/backend.js';
import { buildTag, deploymentTag } from './tags.js';
import type { NewestPurge, Transport } from './transport.js';

/** How long after the newest purge of a deployment processes of its build that start belong to its rollout, in milliseconds. */
const rolloutMs = 3_600_000;

/** A purge by another process that is at most this old makes this process's own needless, in milliseconds. */
const recentMs = 30_000;

/** The timeout of one attempt, and the longest pause between two, in milliseconds. */
const attemptMs = 10_000;
const maxPauseMs = 30_000;

/**
 * Makes the pages of older builds stale at `isr serve`. All processes of a build call it when
 * they start; the first one purges, unless the newest such purge was for this build:
 *
 *	purge of deploymentTag and buildTag(id), in one step: both have one sequence
 *	the deployed build is the one whose tag has the sequence of deploymentTag
 *
 * In a rolling deployment, processes of the older build still answer, and their pages would be
 * stored as new. So each process that starts during a rollout purges again after `drainMs`: the last
 * one to start does so when the older ones have gone.
 */
export async function deploy(transport: Transport, buildId: string, drainMs: number, warn: Warn): Promise<void> {
  const tags: Tags = [deploymentTag, buildTag(buildId)];
  const began = await insist(warn, () => begin(transport, tags));
  if (began.agoMs > rolloutMs) return;
  await pause(drainMs);
  await insist(warn, async () => {
    const now = await deployed(transport, tags);
    // Another process of the build, which started later, may just have done so.
    const isDone = now.seq > began.seq && now.agoMs < recentMs;
    if (now.isThis && !isDone) await purge(transport, tags);
  });
}

/** The tags of the site and of a build. */
type Tags = readonly [site: string, build: string];

/** Makes a build the deployed one, unless it is, and returns the newest purge of its deployment. */
async function begin(transport: Transport, tags: Tags): Promise<NewestPurge> {
  const found = await deployed(transport, tags);
  if (found.isThis) return found;
  await purge(transport, tags);
  return deployed(transport, tags);
}

function purge(transport: Transport, tags: Tags): Promise<void> {
  return transport.purge(tags, 'soft', AbortSignal.timeout(attemptMs));
}

/** Reports whether a build is the deployed one, and the newest purge of a deployment. */
async function deployed(transport: Transport, [site, build]: Tags): Promise<NewestPurge & { isThis: boolean }> {
  // In this order, a purge of the build between the reads shows the build as deployed, which it is.
  const ofSite = await transport.newestOf(site, AbortSignal.timeout(attemptMs));
  const ofBuild = await transport.newestOf(build, AbortSignal.timeout(attemptMs));
  return { ...ofSite, isThis: ofBuild.seq > 0 && ofBuild.seq >= ofSite.seq };
}

/** Calls a function until it succeeds. */
async function insist<T>(warn: Warn, attempt: () => Promise<T>): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await attempt();
    } catch (failure) {
      warn('isr serve was not notified of this build (retrying): it still serves pages of older builds', {
        failure,
      });
      await pause(Math.min(100 * 2 ** failures, maxPauseMs) * (0.5 + Math.random() / 2));
    }
  }
}

/** Waits, without keeping the process alive. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
