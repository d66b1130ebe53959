<?php
require 'Illuminate/autoload.php';

use Illuminate\Cookie\Middleware as Cookies;
use Illuminate\Foundation\Http\Middleware\VerifyCsrfToken;
use Illuminate\Session\Middleware\StartSession;

// SessionIfAny starts the session only for visitors who have one: StartSession gives everyone a
// cookie, and a page with a new cookie is not shared.
class SessionIfAny extends StartSession
{
    public function handle($request, Closure $next)
    {
        return $request->hasCookie(config('session.cookie')) ? parent::handle($request, $next) : $next($request);
    }
}

class Proxies extends Illuminate\Http\Middleware\TrustProxies
{
    protected $proxies = ['127.0.0.1'];
}

class Kernel extends Illuminate\Foundation\Http\Kernel
{
    protected $middleware = [Proxies::class];
    protected $middlewareGroups = [
        'web' => [Cookies\EncryptCookies::class, Cookies\AddQueuedCookiesToResponse::class, StartSession::class, VerifyCsrfToken::class],
        'greeting' => [Cookies\EncryptCookies::class, SessionIfAny::class],
    ];
    protected $routeMiddleware = ['cache.headers' => Illuminate\Http\Middleware\SetCacheHeaders::class];
}

class Routes extends Illuminate\Foundation\Support\Providers\RouteServiceProvider
{
    public function map()
    {
        require __DIR__ . '/routes.php';
    }
}

$app = new Illuminate\Foundation\Application(__DIR__);
$app->useStoragePath(getenv('STORAGE'));
$app->singleton(Illuminate\Contracts\Http\Kernel::class, Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
return $app;
