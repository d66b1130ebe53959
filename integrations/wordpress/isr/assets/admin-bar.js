// Shows in the admin bar what the isr cache has of this page, and purges it.
(function () {
  'use strict';
  const { ajax, action, nonce, texts } = window.isrBar;
  const item = (name) => document.querySelector('#wp-admin-bar-' + name + ' > .ab-item');

  // say shows a text, and hides an item without one.
  function say(name, text) {
    const found = item(name);
    if (!found) return;
    found.textContent = text;
    found.parentElement.hidden = text === '';
  }

  // look requests the stored page as a visitor without cookies. only-if-cached: the site renders nothing for it.
  async function look() {
    let response;
    try {
      response = await fetch(location.pathname + location.search, {
        method: 'HEAD', credentials: 'omit', cache: 'no-store', redirect: 'manual', headers: { 'Cache-Control': 'only-if-cached' },
      });
    } catch (error) {
      show(texts.failed, String(error), '', '');
      return;
    }
    const status = response.headers.get('Cache-Status') || '';
    if (!/(^|,)\s*isr\b/.test(status)) {
      show(texts.notThere, texts.explain, '', '');
      return;
    }
    const age = response.headers.get('Age');
    const tags = response.headers.get('Cache-Tag') || '';
    const stored = response.status !== 504;
    show(stored ? texts.stored : texts.notStored, status, stored && age !== null ? texts.age.replace('%s', age) : '', tags && texts.tags.replace('%s', tags));
  }

  function show(title, state, age, tags) {
    say('isr', title);
    say('isr-state', state);
    say('isr-age', age);
    say('isr-tags', tags);
  }

  async function purge(event) {
    event.preventDefault();
    say('isr-purge', texts.purging);
    const body = new URLSearchParams({ action, _wpnonce: nonce, path: location.pathname + location.search });
    try {
      const response = await fetch(ajax, { method: 'POST', credentials: 'same-origin', body });
      const reply = await response.json();
      say('isr-purge', reply.success ? texts.purged : texts.notPurged + ': ' + reply.data);
    } catch (error) {
      say('isr-purge', texts.notPurged + ': ' + String(error));
    }
    look();
  }

  document.addEventListener('DOMContentLoaded', function () {
    const button = item('isr-purge');
    if (!button) return;
    button.addEventListener('click', purge);
    look();
  });
})();
