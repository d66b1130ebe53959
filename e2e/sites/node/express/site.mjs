// An Express site: pages that are shared, and pages of visitors who have logged in.
import express from 'express';
import session from 'express-session';

const app = express();
const notes = ['Rye on Mondays'];

app.use('/assets', express.static('public', { immutable: true, maxAge: '1y' }));
app.use(session({ secret: 'only-for-tests-on-this-machine', resave: false, saveUninitialized: false, name: 'connect.sid' }));
app.use(express.urlencoded({ limit: '10kb' }));

const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

// page sends a page that shared caches may keep for maxAge seconds, or no cache if it is 0.
function page(res, title, content, maxAge, status = 200) {
  res.status(status).set('Cache-Control', maxAge ? `public, max-age=${maxAge}, stale-while-revalidate=60` : 'private, no-store');
  res.send(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${escape(title)}</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/assets/site.3f2a9c.css"></head>
<body><nav><a href="/">Home</a> <a href="/stories/rye">Rye</a> <a href="/notes">Notes</a> <a href="/account">Account</a></nav>
<main><h1>${escape(title)}</h1>
${content}
</main></body></html>
`);
}

// The home page greets visitors by name. Its Cache-Control is a mistake that sites make: it is
// a shared page's.
app.get('/', (req, res) => {
  page(res, 'Home', `<p>Hello <b id="name">${escape(req.session.name ?? 'nobody')}</b>, at <time id="rendered">${new Date().toISOString()}</time></p>`, 2);
});

app.get('/stories/rye', (req, res) => {
  page(res, 'Rye', `<p>${req.query.lang === 'de' ? 'Dicht und dunkel.' : 'Dense and dark.'}</p>`, 600);
});

app.route('/notes')
  .get((req, res) => {
    page(res, 'Notes', `<ul>${notes.map((n) => `<li>${escape(n)}</li>`).join('')}</ul>
<form method="post" action="/notes"><input name="text"><button>Add</button></form>`, 600);
  })
  .post((req, res) => {
    notes.push(String(req.body.text).slice(0, 100));
    res.redirect(303, '/notes');
  });

app.route('/login')
  .get((req, res) => page(res, 'Log in', '<form method="post" action="/login"><input name="name"><button>Log in</button></form>', 600))
  .post((req, res) => {
    req.session.name = String(req.body.name).slice(0, 40);
    res.redirect(303, '/account');
  });

app.get('/account', (req, res) => {
  if (!req.session.name) return res.redirect(302, '/login');
  return page(res, 'Account', `<p>Hello <b id="name">${escape(req.session.name)}</b></p>
<form method="post" action="/logout"><button>Log out</button></form>`, 0);
});

app.post('/logout', (req, res) => {
  req.session.destroy(() => res.clearCookie('connect.sid').redirect(303, '/'));
});

app.get('/old', (req, res) => res.redirect(301, '/stories/rye'));
app.use((req, res) => page(res, 'Not found', '<p>No such page.</p>', 0, 404));

app.listen(Number(process.argv[2]), '127.0.0.1');
