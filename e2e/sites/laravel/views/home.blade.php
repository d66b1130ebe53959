@extends('layout', ['title' => 'Home'])
@section('content')
<p>Hello <b id="name">{{ $name }}</b>, at <time id="rendered">{{ now()->toISOString() }}</time></p>
@endsection
