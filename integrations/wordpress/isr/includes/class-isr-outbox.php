<?php
defined('ABSPATH') || exit;

/**
 * Delivers purges. All changes of a PHP request become one row of the options table, and one webhook at its end; the row is
 * deleted once isr has answered that the purge is committed. A row is read, sent and deleted as a whole and never changed,
 * so that requests at the same time lose nothing. A purge may be sent twice, which is harmless.
 *
 *   add ──► shutdown: row ──► flush: all rows in one webhook ──► 200: delete the rows that were read
 *                                                           └─► error: notice, and again by WP-Cron
 */
final class ISR_Outbox {
    const PREFIX = 'isr_pending_';
    const FAILURE = 'isr_failure'; // option: the last failure, while purges wait
    const RETRY = 'isr_retry';     // the action of WP-Cron after a failure
    const HOURLY = 'isr_hourly';   // the action for rows that a request left when it was killed

    /** More tags than this purge the whole site. isr takes 90 targets at once, of which a URL counts as two. */
    const MAX_TAGS = 80;
    const MAX_URLS = 5;

    /** More rows than this become one that purges the whole site. */
    const MAX_ROWS = 50;

    /** After a failure, requests of editors do not wait for isr for so many seconds. */
    const PAUSE = 60;
    const MAX_PAUSE = 900;

    private static $tags = [];

    public static function hook() {
        add_action(self::RETRY, [__CLASS__, 'flush']);
        add_action(self::HOURLY, [__CLASS__, 'flush']);
        add_action('admin_init', [__CLASS__, 'schedule']);
    }

    public static function schedule() {
        if (!wp_next_scheduled(self::HOURLY)) {
            wp_schedule_event(time() + HOUR_IN_SECONDS, 'hourly', self::HOURLY);
        }
    }

    public static function unschedule() {
        wp_clear_scheduled_hook(self::RETRY);
        wp_clear_scheduled_hook(self::HOURLY);
    }

    /** Purges tags of the current site at the end of this PHP request. */
    public static function add(array $tags) {
        if (!ISR_Settings::complete()) {
            return;
        }
        if (!self::$tags) {
            add_action('shutdown', [__CLASS__, 'deliver'], PHP_INT_MAX);
        }
        foreach (array_merge($tags, ['many']) as $tag) {
            self::$tags[ISR_Tags::of($tag)] = true;
        }
    }

    /** Writes down what this PHP request has changed, and sends it. */
    public static function deliver() {
        if (!self::$tags) {
            return;
        }
        self::store(array_keys(self::$tags), []);
        self::$tags = [];
        // With PHP-FPM the response is complete here, and the editor does not wait.
        if (function_exists('fastcgi_finish_request')) {
            fastcgi_finish_request();
        } elseif (function_exists('litespeed_finish_request')) {
            litespeed_finish_request();
        }
        $failure = self::failure();
        if ($failure && time() < $failure['at'] + self::PAUSE) {
            self::retry_in(self::PAUSE);
            return;
        }
        self::flush();
    }

    /** Purges at once. Returns true, or an error; then the purge is repeated later. */
    public static function purge_now(array $tags, array $urls) {
        self::store(array_map(['ISR_Tags', 'of'], $tags ? array_merge($tags, ['many']) : []), array_slice($urls, 0, self::MAX_URLS));
        return self::flush();
    }

    private static function store(array $tags, array $urls) {
        add_option(self::PREFIX . time() . '_' . bin2hex(random_bytes(8)), wp_json_encode(['tags' => self::bounded($tags), 'urls' => $urls]), '', 'no');
    }

    /** Returns tags that isr takes at once, and that cover all tags of a list. */
    private static function bounded(array $tags): array {
        if (count($tags) <= self::MAX_TAGS) {
            return $tags;
        }
        return array_values(array_unique(array_map(['ISR_Tags', 'site_of'], $tags)));
    }

    /** Returns the rows that wait, by the names of their options. */
    public static function pending(): array {
        global $wpdb;
        $rows = $wpdb->get_results($wpdb->prepare(
            "SELECT option_name, option_value FROM {$wpdb->options} WHERE option_name LIKE %s ORDER BY option_id LIMIT 500",
            $wpdb->esc_like(self::PREFIX) . '%'
        ));
        $pending = [];
        foreach ((array) $rows as $row) {
            $value = json_decode($row->option_value, true);
            $pending[$row->option_name] = is_array($value) ? $value : ['tags' => [ISR_Tags::of('site')], 'urls' => []];
        }
        return $pending;
    }

    /** Sends all rows. Returns true, or the error of isr; then the rows stay, and are sent again later. */
    public static function flush() {
        $pending = self::pending();
        $tags = array_values(array_unique(array_merge([], ...array_column($pending, 'tags'))));
        $urls = array_values(array_unique(array_merge([], ...array_column($pending, 'urls'))));
        $done = true;
        $bounded = self::bounded($tags);
        if (count($urls) > self::MAX_URLS) {
            $urls = [];
            $bounded = array_values(array_unique(array_merge([ISR_Tags::of('site')], $bounded)));
        }
        foreach (array_chunk($bounded, self::MAX_TAGS) ?: ($urls ? [[]] : []) as $i => $chunk) {
            $done = ISR_Client::purge($chunk, $i === 0 ? $urls : []);
            if (is_wp_error($done)) {
                self::failed($done, $pending, $bounded, $urls);
                return $done;
            }
        }
        array_map('delete_option', array_keys($pending));
        if (self::failure()) {
            delete_option(self::FAILURE);
            wp_clear_scheduled_hook(self::RETRY);
        }
        return $done;
    }

    private static function failed(WP_Error $error, array $pending, array $tags, array $urls) {
        if (count($pending) > self::MAX_ROWS) {
            // The new row is written first: what is lost in between is a row, never a purge.
            self::store(array_values(array_unique(array_map(['ISR_Tags', 'site_of'], $tags ?: [ISR_Tags::of('site')]))), []);
            array_map('delete_option', array_keys($pending));
        }
        $before = self::failure();
        $times = $before ? $before['times'] + 1 : 1;
        update_option(self::FAILURE, [
            'at'      => time(),
            'since'   => $before ? $before['since'] : time(),
            'times'   => $times,
            'code'    => $error->get_error_code(),
            'message' => $error->get_error_message(),
        ], true);
        self::retry_in(min(self::PAUSE * 2 ** min($times - 1, 10), self::MAX_PAUSE));
    }

    private static function retry_in(int $seconds) {
        if (!wp_next_scheduled(self::RETRY)) {
            wp_schedule_single_event(time() + $seconds, self::RETRY);
        }
    }

    /** Returns the last failure (at, since, times, code, message) while purges wait, or null. */
    public static function failure() {
        $failure = get_option(self::FAILURE);
        return is_array($failure) && isset($failure['at'], $failure['since'], $failure['times'], $failure['message']) ? $failure : null;
    }
}
