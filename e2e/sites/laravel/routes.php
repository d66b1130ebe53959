<?php
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Route;

function notes(): array
{
    return is_file(storage_path('notes')) ? file(storage_path('notes'), FILE_IGNORE_NEW_LINES) : ['Rye on Mondays'];
}

// Pages for all, without a session.
Route::middleware('cache.headers:public;max_age=0;s_maxage=600')->group(function () {
    Route::get('/stories/rye', fn () => view('story'));
    Route::get('/notes', fn () => view('notes', ['notes' => notes()]));
});
Route::post('/notes', function (Request $request) {
    file_put_contents(storage_path('notes'), implode("\n", [...notes(), mb_substr($request->input('text'), 0, 100)]));
    return redirect('/notes', 303);
});
Route::permanentRedirect('/old', '/stories/rye');

// The home page greets visitors by name. Its Cache-Control is a mistake that sites make: it is
// that of a shared page.
Route::middleware(['greeting', 'cache.headers:public;max_age=0;s_maxage=2'])->get('/', function (Request $request) {
    return view('home', ['name' => $request->hasSession() ? $request->session()->get('name', 'nobody') : 'nobody']);
});

Route::middleware('web')->group(function () {
    Route::view('/login', 'login');
    Route::post('/login', function (Request $request) {
        $request->session()->regenerate();
        $request->session()->put('name', mb_substr($request->input('name'), 0, 40));
        return redirect('/account', 303);
    });
    Route::get('/account', function (Request $request) {
        $name = $request->session()->get('name');
        return $name ? view('account', ['name' => $name]) : redirect('/login');
    });
    Route::post('/logout', function (Request $request) {
        $request->session()->invalidate();
        return redirect('/', 303);
    });
});
