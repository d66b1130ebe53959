// Sites of several frameworks behind isr serve, each with the configuration in its folder, in a
// browser: links, forms, a login and a logout work, and no visitor gets the page of another.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { cacheStatus, hydrated, launchBrowser, need, openPage, serveConfigured, stored } from './rig.mjs';

const isr = need('ISR_TEST_ISR', 'isr command');
const chromium = need('ISR_TEST_CHROMIUM', 'Chromium');

// What differs from site to site: whether a script follows links, and the page that greets
// visitors by name.
const usual = { scripted: false, greeting: '/' };
const sites = {
  astro: { ...usual, scripted: true },
  django: { ...usual, greeting: '/hello/' },
  express: usual,
  flask: usual,
  laravel: usual,
  next: { ...usual, scripted: true, greeting: '/now' },
  nuxt: { ...usual, scripted: true },
  rails: usual,
  'react-router': { ...usual, scripted: true },
  sveltekit: { ...usual, scripted: true },
};

const heading = (page, text) => page.locator('h1', { hasText: text }).waitFor();

// follow clicks a link. A property set on window stays if a script replaced the page.
async function follow(page, site, link, title) {
  if (site.scripted) await hydrated(page);
  await page.evaluate(() => { window.stayed = true; });
  await page.click(`nav >> text=${link}`);
  await heading(page, title);
  assert.equal(await page.evaluate(() => window.stayed === true), site.scripted, `${link}: by a script`);
}

async function logIn(page, site, name) {
  await follow(page, site, 'Account', 'Log in');
  await page.fill('input[name=name]', name);
  await page.click('button:has-text("Log in")');
  await heading(page, 'Account');
  assert.equal(await page.textContent('#name'), name);
}

async function greeted(page, site) {
  await page.goto(site.greeting);
  const name = page.locator('#name');
  return await name.count() > 0 ? name.textContent() : 'nobody';
}

// awaitGreeting waits until a visitor who has logged in is greeted by name. Until then the browser
// may show its own copy of the page, which has no name in it and is fresh for two seconds.
async function awaitGreeting(page, site, name) {
  const until = Date.now() + 300_000;
  for (let got; got !== name;) {
    got = await greeted(page, site);
    assert.ok(got === name || got === 'nobody' && Date.now() < until, `${name} is greeted as ${got}`);
  }
}

describe('sites', { concurrency: 3 }, () => {
  let browser; // of all sites, each with visitors of its own
  before(async () => {
    if (!isr.skip && !chromium.skip) browser = await launchBrowser(chromium.value);
  });
  after(() => browser?.close());

  for (const [name, site] of Object.entries(sites)) {
    const built = need(`ISR_TEST_${name.toUpperCase().replace('-', '_')}`, `built ${name} site`);

    test(name, { skip: isr.skip || chromium.skip || built.skip }, async (t) => {
      const address = await serveConfigured(t, isr.value, built.value);
      const [ann, bob] = [await openPage(browser, { baseURL: address }), await openPage(browser, { baseURL: address })];

      await ann.page.goto('/');
      await follow(ann.page, site, 'Rye', 'Rye');
      await follow(ann.page, site, 'Home', 'Home');
      await stored(address);
      assert.match(cacheStatus(await bob.page.goto('/')), /^isr; hit/);
      await logIn(ann.page, site, 'Ann');
      assert.notEqual(await greeted(bob.page, site), 'Ann');
      await awaitGreeting(ann.page, site, 'Ann');
      await logIn(bob.page, site, 'Bob');
      assert.equal(await greeted(ann.page, site), 'Ann');
      await awaitGreeting(bob.page, site, 'Bob');

      await follow(bob.page, site, 'Notes', 'Notes');
      await follow(ann.page, site, 'Notes', 'Notes');
      await ann.page.fill('input[name=text]', 'A new note');
      await ann.page.click('button:has-text("Add")');
      await ann.page.locator('li', { hasText: 'A new note' }).waitFor();
      await bob.page.reload();
      await bob.page.locator('li', { hasText: 'A new note' }).waitFor();

      await follow(ann.page, site, 'Account', 'Account');
      await ann.page.click('text=Log out');
      await heading(ann.page, 'Home');
      assert.notEqual(await greeted(ann.page, site), 'Ann');
      await follow(ann.page, site, 'Account', 'Log in');
      assert.equal(await greeted(bob.page, site), 'Bob');
      assert.deepEqual([...ann.problems, ...bob.problems], []);
    });
  }

  const wordpress = need('ISR_TEST_WORDPRESS', 'WordPress site');

  test('wordpress', { skip: isr.skip || chromium.skip || wordpress.skip }, async (t) => {
    const address = await serveConfigured(t, isr.value, wordpress.value);
    const visitors = await Promise.all([1, 2, 3].map(() => openPage(browser, { baseURL: address })));
    const [ann, bob, anonymous] = visitors.map((visitor) => visitor.page);
    const bar = '#wpadminbar #wp-admin-bar-my-account .display-name';

    await ann.goto('/');
    await ann.click('text=Rye');
    await heading(ann, 'Rye');
    for (const [page, name] of [[ann, 'Ann'], [bob, 'Bob']]) {
      await page.goto('/wp-login.php');
      await page.fill('#user_login', name);
      await page.fill('#user_pass', 'only-for-tests');
      await page.click('#wp-submit');
      await heading(page, 'Dashboard');
    }
    for (const [page, name] of [[ann, 'Ann'], [anonymous, undefined], [bob, 'Bob'], [anonymous, undefined]]) {
      await page.goto('/');
      assert.equal(await page.evaluate((selector) => document.querySelector(selector)?.textContent, bar), name);
    }
    assert.match(cacheStatus(await anonymous.goto('/?p=1')), /^isr; (hit|.*stored)/);
    await ann.goto('/?p=1');
    await ann.fill('#comment', 'A new note');
    await ann.click('#submit');
    await ann.getByText('A new note').waitFor();
    await anonymous.reload();
    await anonymous.getByText('A new note').waitFor();
    await ann.goto(await ann.locator('#wp-admin-bar-logout a').getAttribute('href'));
    await ann.goto('/');
    assert.equal(await ann.locator(bar).count(), 0);
    assert.deepEqual(visitors.flatMap(({ problems }) => problems), []);
  });
});
