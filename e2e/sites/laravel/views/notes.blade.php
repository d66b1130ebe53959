@extends('layout', ['title' => 'Notes'])
@section('content')
<ul>@foreach ($notes as $note)<li>{{ $note }}</li>@endforeach</ul>
<form method="post" action="/notes"><input name="text"><button>Add</button></form>
@endsection
