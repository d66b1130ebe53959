@extends('layout', ['title' => 'Log in'])
@section('content')
<form method="post" action="/login">@csrf<input name="name"><button>Log in</button></form>
@endsection
