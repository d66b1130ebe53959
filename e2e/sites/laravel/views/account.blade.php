@extends('layout', ['title' => 'Account'])
@section('content')
<p>Hello <b id="name">{{ $name }}</b></p>
<form method="post" action="/logout">@csrf<button>Log out</button></form>
@endsection
