<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{{ $title }}</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/build/assets/app-3f2a9c.css"></head>
<body>
<nav><a href="/">Home</a> <a href="/stories/rye">Rye</a> <a href="/notes">Notes</a> <a href="/account">Account</a></nav>
<main><h1>{{ $title }}</h1>@yield('content')</main>
</body>
</html>
