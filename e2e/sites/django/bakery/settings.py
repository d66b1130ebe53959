"""Production-like settings of the Django site of the end-to-end tests."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
# Created by the script "run": the database and the collected static files.
DATA_DIR = BASE_DIR / ".data"

SECRET_KEY = "only-for-tests-on-this-machine"
DEBUG = False
ALLOWED_HOSTS = ["*"]
# The tests put a proxy in front; its address is the browser's origin.
CSRF_TRUSTED_ORIGINS = [o for o in os.environ.get("BAKERY_ORIGINS", "").split() if o]

INSTALLED_APPS = ["django.contrib.sessions", "django.contrib.staticfiles", "bakery"]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
]
ROOT_URLCONF = "bakery.urls"
WSGI_APPLICATION = "bakery.wsgi.application"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
              "OPTIONS": {"context_processors": ["django.template.context_processors.request"]}}]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA_DIR / "db.sqlite3"}}
STORAGES = {"staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"}}
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
