<?php
defined('ABSPATH') || exit;

/**
 * The settings: constants of wp-config.php, or what the settings page has stored. The sites of a network share them, since
 * an administrator of one site must not choose to which addresses the server sends requests.
 */
final class ISR_Settings {
    const OPTION = 'isr_settings';

    /** The least and the largest number of bytes of a secret, as isr demands. */
    const MIN_SECRET = 16;
    const MAX_SECRET = 1024;

    /** The constants of wp-config.php, by the name of the setting. */
    const CONSTANTS = ['url' => 'ISR_URL', 'secret' => 'ISR_SECRET', 'draft_secret' => 'ISR_DRAFT_SECRET'];

    /** The path of the hook, unless the address has one. */
    const HOOK_PATH = '/-/hooks/wordpress';

    /** Returns a setting: url, secret or draft_secret. It is empty if there is none. */
    public static function get(string $name): string {
        if (self::is_constant($name)) {
            return trim((string) constant(self::CONSTANTS[$name]));
        }
        $stored = get_site_option(self::OPTION, []);
        return is_array($stored) && isset($stored[$name]) && is_string($stored[$name]) ? $stored[$name] : '';
    }

    public static function is_constant(string $name): bool {
        return defined(self::CONSTANTS[$name]);
    }

    public static function complete(): bool {
        return self::get('url') !== '' && self::get('secret') !== '';
    }

    /** Who may change the settings, and see why purges fail. */
    public static function capability(): string {
        return is_multisite() ? 'manage_network_options' : 'manage_options';
    }

    /** Returns the URL of the hook, or an error that says what is wrong with the address. */
    public static function endpoint() {
        $url = self::get('url');
        $parts = wp_parse_url($url);
        if ($url === '') {
            return new WP_Error('isr_address', __('The address of isr is not set.', 'isr'));
        }
        if (!is_array($parts) || empty($parts['host']) || !in_array(strtolower($parts['scheme'] ?? ''), ['http', 'https'], true)) {
            return new WP_Error('isr_address', __('The address of isr is not a URL. It begins with http:// or https://, such as http://127.0.0.1:9180', 'isr'));
        }
        if (isset($parts['user']) || isset($parts['query']) || isset($parts['fragment'])) {
            return new WP_Error('isr_address', __('The address of isr has a user, a query or a fragment. Remove it: the secret signs the requests.', 'isr'));
        }
        return rtrim($parts['path'] ?? '', '/') === '' ? rtrim($url, '/') . self::HOOK_PATH : $url;
    }

    /** Stores the settings that are given, and returns an error if one is not valid. Then none is stored. */
    public static function save(array $changed) {
        foreach (['secret', 'draft_secret'] as $name) {
            $length = strlen($changed[$name] ?? '');
            if ($length > 0 && ($length < self::MIN_SECRET || $length > self::MAX_SECRET)) {
                /* translators: 1: number of bytes, 2: least number, 3: largest number */
                return new WP_Error('isr_secret', sprintf(__('The secret has %1$d bytes; isr accepts %2$d to %3$d. Make one with: openssl rand -hex 32', 'isr'), $length, self::MIN_SECRET, self::MAX_SECRET));
            }
        }
        $stored = get_site_option(self::OPTION, []);
        $before = is_array($stored) ? $stored : [];
        update_site_option(self::OPTION, array_merge($before, $changed));
        $endpoint = self::endpoint();
        if (is_wp_error($endpoint) && self::get('url') !== '') {
            update_site_option(self::OPTION, $before);
            return $endpoint;
        }
        return true;
    }
}
