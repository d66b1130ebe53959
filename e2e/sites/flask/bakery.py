"""A Flask site: pages that are shared, and pages of visitors who have logged in."""

from datetime import datetime, timezone

from flask import Flask, make_response, redirect, render_template_string, request, session, url_for

app = Flask(__name__, static_url_path="/static/3f2a9c", static_folder="static")
app.config.update(SECRET_KEY="only-for-tests-on-this-machine", SEND_FILE_MAX_AGE_DEFAULT=31536000)
notes = ["Rye on Mondays"]

LAYOUT = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="{{ url_for('static', filename='site.css') }}"></head>
<body><nav><a href="/">Home</a> <a href="/stories/rye">Rye</a> <a href="/notes">Notes</a> <a href="/account">Account</a></nav>
<main><h1>{{ title }}</h1>
"""


def page(title, content, max_age, **context):
    """Render a page that shared caches may keep for max_age seconds, or no cache if it is 0."""
    response = make_response(render_template_string(LAYOUT + content + "</main></body></html>\n", title=title, **context))
    response.headers["Cache-Control"] = f"public, max-age={max_age}, stale-while-revalidate=60" if max_age else "private, no-store"
    return response


@app.get("/")
def home():
    """Greet visitors by name. Its Cache-Control is a mistake that sites make: it is a shared page's."""
    # Reading the session adds "Vary: Cookie", and a page with that is not stored.
    name = session.get("name") if "session" in request.cookies else None
    now = datetime.now(timezone.utc).isoformat()
    content = """<p>Hello <b id="name">{{ name or "nobody" }}</b>, at <time id="rendered">{{ now }}</time></p>"""
    return page("Home", content, 2, name=name, now=now)


@app.get("/stories/rye")
def story():
    """Show a story, in the language of the query."""
    text = "Dicht und dunkel." if request.args.get("lang") == "de" else "Dense and dark."
    return page("Rye", "<p>{{ text }}</p>", 600, text=text)


@app.route("/notes", methods=["GET", "POST"])
def all_notes():
    """Show the notes, or add one."""
    if request.method == "POST":
        notes.append(request.form["text"][:100])
        return redirect(url_for("all_notes"), 303)
    content = """<ul>{% for n in notes %}<li>{{ n }}</li>{% endfor %}</ul>
<form method="post" action="/notes"><input name="text"><button>Add</button></form>"""
    return page("Notes", content, 600, notes=notes)


@app.route("/login", methods=["GET", "POST"])
def login():
    """Begin a session. Any name may."""
    if request.method == "POST":
        session["name"] = request.form["name"][:40]
        return redirect(url_for("account"), 303)
    return page("Log in", """<form method="post" action="/login"><input name="name"><button>Log in</button></form>""", 600)


@app.get("/account")
def account():
    """Show the visitor's own page."""
    if "name" not in session:
        return redirect(url_for("login"))
    content = """<p>Hello <b id="name">{{ session.name }}</b></p>
<form method="post" action="/logout"><button>Log out</button></form>"""
    return page("Account", content, 0)


@app.post("/logout")
def logout():
    """End the session."""
    session.clear()
    return redirect(url_for("home"), 303)


@app.get("/old")
def old():
    """Redirect to a story's new URL."""
    return redirect(url_for("story"), 301)
