@extends('layout', ['title' => 'Rye'])
@section('content')
<p>Dense and dark.</p>
@endsection
