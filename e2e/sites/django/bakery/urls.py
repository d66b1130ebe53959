"""The URLs of the site."""

from django.urls import path
from django.views.generic import RedirectView

from . import views

urlpatterns = [
    path("", views.home, name="home"),
    path("plain/", views.plain, name="plain"),
    path("visits/", views.visits, name="visits"),
    path("hello/", views.hello, name="hello"),
    path("slow/", views.slow, name="slow"),
    path("guestbook/", views.guestbook, name="guestbook"),
    path("old/", RedirectView.as_view(pattern_name="home", permanent=True)),
    path("stories/rye/", views.story, name="story"),
    path("notes/", views.notes, name="notes"),
    path("accounts/login/", views.login, name="login"),
    path("accounts/profile/", views.account, name="account"),
    path("accounts/logout/", views.logout, name="logout"),
    path("broken/", views.broken, name="broken"),
]
