"""One view for each kind of caching behaviour of Django pages."""

import time

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

NOTES = ["Rye on Mondays"]


def page(request, template, **context):
    """Render a template with the time of rendering."""
    return render(request, template, {"rendered": timezone.now().isoformat(), **context})


@cache_control(public=True, s_maxage=5, stale_while_revalidate=60)
def home(request):
    """A page that shared caches may keep for five seconds."""
    return page(request, "home.html")


def plain(request):
    """A page without Cache-Control, like most Django pages."""
    return page(request, "plain.html")


def visits(request):
    """A page that writes the session: it sets a cookie and varies on it."""
    request.session["visits"] = request.session.get("visits", 0) + 1
    return page(request, "visits.html", visits=request.session["visits"])


def hello(request):
    """A page that only reads the session: only Vary marks it as personal."""
    return page(request, "hello.html", name=request.session.get("name", "stranger"))


@cache_control(public=True, s_maxage=5)
def slow(request):
    """A cacheable page that takes a second."""
    time.sleep(1)
    return page(request, "slow.html")


def guestbook(request):
    """A form with a CSRF token, which makes the page personal."""
    if request.method == "POST":
        request.session["name"] = request.POST.get("name", "")[:40]
        return redirect("guestbook")
    return page(request, "guestbook.html", name=request.session.get("name", ""))


@cache_control(public=True, s_maxage=5)
def broken(request):
    """A failing page whose Cache-Control allows caching."""
    return HttpResponse("broken\n", status=500, content_type="text/plain")


@cache_control(public=True, s_maxage=600)
def story(request):
    """A page without a time."""
    return render(request, "story.html")


@csrf_exempt  # a page with a token could not be shared
def notes(request):
    """A shared page that visitors change."""
    if request.method == "POST":
        NOTES.append(request.POST.get("text", "")[:100])
        return redirect("notes")
    response = render(request, "notes.html", {"notes": NOTES})
    patch_cache_control(response, public=True, s_maxage=600)
    return response


def login(request):
    """Begin a session. Any name may."""
    if request.method == "POST":
        request.session["name"] = request.POST.get("name", "")[:40]
        return redirect("account")
    return render(request, "login.html")


def account(request):
    """The visitor's own page."""
    if "name" not in request.session:
        return redirect("login")
    return render(request, "account.html", {"name": request.session["name"]})


@require_POST
def logout(request):
    """End the session."""
    request.session.flush()
    return redirect("home")
