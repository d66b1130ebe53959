<?php
return [
    'name' => 'Bakery', 'env' => 'production', 'debug' => false, 'timezone' => 'UTC', 'locale' => 'en', 'fallback_locale' => 'en',
    'key' => 'only-for-tests-of-32-characters!', 'cipher' => 'AES-256-CBC',
    'providers' => [
        Illuminate\Cookie\CookieServiceProvider::class, Illuminate\Encryption\EncryptionServiceProvider::class,
        Illuminate\Filesystem\FilesystemServiceProvider::class, Illuminate\Session\SessionServiceProvider::class,
        Illuminate\Translation\TranslationServiceProvider::class, Illuminate\View\ViewServiceProvider::class, Routes::class,
    ],
    'aliases' => [],
];
