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
    path("broken/", views.broken, name="broken"),
]
