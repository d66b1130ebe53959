// The changes of a page, each with its command line and what it will do.
import { html } from '../dom.js';
import { post } from '../api.js';
import { command, generation, zero } from '../format.js';

// pageChanges returns the changes of a page, for Confirm. done is called after each.
export function pageChanges(target, done) {
  const of = [target.key, target.tenant && '--tenant', target.tenant];
  const body = target.tenant ? target : { key: target.key };
  const change = (more) => ({ done, ...more });
  return {
    regenerate: (pinned) => change({
      title: 'Regenerate the page', verb: pinned ? 'Unpin and regenerate' : 'Regenerate', line: command('regenerate', ...of, pinned && '--unpin'),
      effect: html`<p>The origin renders the page now, and the new generation replaces the current one. Visitors get the current one until then. Other servers follow when their copy in memory expires.</p>
        ${pinned && html`<p>The page is pinned: regenerating ends the pin.</p>`}`,
      run: () => post('/-/regenerate', { ...body, unpin: pinned || undefined }),
    }),
    purgeSoft: () => change({
      title: 'Purge the page softly', verb: 'Purge', line: command('purge', ...of),
      effect: html`<p>All servers treat the page as stale: the next visitor still gets it at once, and it is regenerated in the background.</p>`,
      run: () => post('/-/purge', { targets: [{ url: target.key }], tenant: target.tenant || undefined, mode: 'soft', wait: true }),
    }),
    purgeHard: (pinned) => change({
      title: 'Purge the page hard', verb: 'Purge hard', danger: true, line: command('purge', ...of, '--hard', pinned && '--unpin'),
      effect: html`<p>The current generation is never served again, and cannot be rolled back to. The next visitor waits until the origin has rendered the page; if the origin fails, visitors get an error.</p>
        ${pinned && html`<p>The page is pinned: purging it ends the pin.</p>`}`,
      run: () => post('/-/purge', { targets: [{ url: target.key }], tenant: target.tenant || undefined, mode: 'hard', unpin: pinned || undefined, wait: true }),
    }),
    pin: () => change({
      title: 'Pin the page', verb: 'Pin', line: (hours) => command('pin', ...of, hours && '--for', hours && `${hours}h`),
      effect: html`<p>The current generation stays: it does not age and is not regenerated until the pin ends.</p>`,
      choice: { label: 'Until', options: [['', 'it is unpinned'], ['1', 'in an hour'], ['8', 'in 8 hours'], ['24', 'in a day'], ['168', 'in a week']] },
      run: (hours) => post('/-/pin', { ...body, seconds: hours ? Number(hours) * 3600 : undefined }),
    }),
    unpin: () => change({
      title: 'Unpin the page', verb: 'Unpin', line: command('unpin', ...of),
      effect: html`<p>The page ages again: if its freshness has ended, the next request regenerates it.</p>`,
      run: () => post('/-/unpin', body),
    }),
    rollBack: (to) => change({
      title: `Roll back to ${generation(to)}`, verb: 'Roll back and pin', line: command('rollback', ...of, '--to', to),
      effect: html`<p>All servers serve this older generation within one poll of the log. It is pinned: it is not regenerated until you unpin the page.</p>`,
      run: () => post('/-/rollback', { ...body, to }),
    }),
    release: () => change({
      title: 'Release the lease', verb: 'Release', danger: true, line: command('lease', ...of, '--release'),
      effect: html`<p>The holder can no longer publish what it is rendering, or the backoff after failures ends. The next request renders the page again.</p>`,
      run: () => post('/-/lease/release', body),
    }),
  };
}

// Actions are the buttons of a page. A button that has no effect now is absent; without the
// right to change all are disabled, with the reason.
export function Actions({ changes, page, lease, versions, canChange, ask }) {
  const stored = page.state !== 'missing';
  const pinned = !zero(page.pinned_until);
  const older = versions?.find((version) => !version.current && version.generation_id);
  const buttons = [
    ['Regenerate', () => changes.regenerate(pinned)],
    stored && ['Purge', () => changes.purgeSoft()],
    stored && ['Purge hard', () => changes.purgeHard(pinned)],
    stored && !pinned && ['Pin', () => changes.pin()],
    pinned && ['Unpin', () => changes.unpin()],
    older && ['Roll back', () => changes.rollBack(older.generation_id)],
    lease && lease.state !== 'free' && [lease.state === 'held' ? 'Release the lease' : 'End the backoff', () => changes.release()],
  ].filter(Boolean);
  return html`<div class="actions" role="group" aria-label="Changes">
    ${buttons.map(([title, change]) => html`<${ChangeButton} key=${title} canChange=${canChange} act=${() => ask(change())}>${title}<//>`)}
  </div>`;
}

// A ChangeButton is disabled for operators who may only read, with the reason.
export const ChangeButton = ({ canChange, act, children, ...rest }) => html`<button type="button" onClick=${act} disabled=${!canChange}
  aria-describedby=${canChange ? undefined : 'readonly'} title=${canChange ? undefined : 'This token may only read'} ...${rest}>${children}</button>`;
