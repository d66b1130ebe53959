<?php
defined('ABSPATH') || exit;

/**
 * The state of the page in the admin bar. The browser requests it from the cache without cookies, as a visitor, and with
 * "only-if-cached", so that looking at it never makes this site work.
 */
final class ISR_Bar {
    const ACTION = 'isr_purge_page';
    const CAPABILITY = 'edit_others_posts';

    public static function hook() {
        add_action('admin_bar_menu', [__CLASS__, 'menu'], 90);
        add_action('wp_enqueue_scripts', [__CLASS__, 'script']);
        add_action('wp_ajax_' . self::ACTION, [__CLASS__, 'purge']);
    }

    private static function visible(): bool {
        return !is_admin() && is_admin_bar_showing() && current_user_can(self::CAPABILITY);
    }

    public static function menu(WP_Admin_Bar $bar) {
        if (!self::visible()) {
            return;
        }
        $bar->add_node(['id' => 'isr', 'title' => esc_html__('isr: …', 'isr')]);
        foreach (['state' => '…', 'age' => '', 'tags' => ''] as $id => $title) {
            $bar->add_node(['id' => "isr-$id", 'parent' => 'isr', 'title' => $title]);
        }
        $bar->add_node(['id' => 'isr-purge', 'parent' => 'isr', 'title' => esc_html__('Purge this page', 'isr'), 'href' => '#']);
        if (current_user_can(ISR_Settings::capability())) {
            $bar->add_node(['id' => 'isr-settings', 'parent' => 'isr', 'title' => esc_html__('Settings', 'isr'), 'href' => esc_url(ISR_Admin::url())]);
        }
    }

    public static function script() {
        if (!self::visible()) {
            return;
        }
        wp_enqueue_script('isr-bar', plugins_url('assets/admin-bar.js', ISR_PLUGIN_FILE), ['admin-bar'], '1.0.0', true);
        wp_localize_script('isr-bar', 'isrBar', [
            'ajax'   => admin_url('admin-ajax.php', 'relative'),
            'action' => self::ACTION,
            'nonce'  => wp_create_nonce(self::ACTION),
            'texts'  => [
                'stored'    => __('isr: stored', 'isr'),
                'notStored' => __('isr: not stored', 'isr'),
                'notThere'  => __('isr: not in front', 'isr'),
                'explain'   => __('The response has no Cache-Status of isr: this address does not pass through isr.', 'isr'),
                /* translators: %s: number of seconds */
                'age'       => __('Age: %s s', 'isr'),
                /* translators: %s: list of tags */
                'tags'      => __('Tags: %s', 'isr'),
                'failed'    => __('isr: no answer', 'isr'),
                'purging'   => __('Purging…', 'isr'),
                'purged'    => __('Purged', 'isr'),
                'notPurged' => __('Not purged', 'isr'),
            ],
        ]);
    }

    /** Purges one page of this site. */
    public static function purge() {
        check_ajax_referer(self::ACTION);
        if (!current_user_can(self::CAPABILITY)) {
            wp_send_json_error(__('You may not purge pages.', 'isr'), 403);
        }
        // Only the path comes from the browser: the host is that of this site.
        $path = isset($_POST['path']) && is_string($_POST['path']) ? wp_unslash($_POST['path']) : '';
        if (!preg_match('#^/[\x21-\x7e]{0,2000}$#', $path) || strpos($path, '//') === 0) {
            wp_send_json_error(__('The path of the page is not valid.', 'isr'), 400);
        }
        $home = wp_parse_url(home_url());
        $done = ISR_Outbox::purge_now([], [$home['scheme'] . '://' . $home['host'] . (isset($home['port']) ? ':' . $home['port'] : '') . $path]);
        if (is_wp_error($done)) {
            wp_send_json_error($done->get_error_message(), 502);
        }
        wp_send_json_success();
    }
}
