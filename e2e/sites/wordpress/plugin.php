<?php
// A plugin that is always active: pages request nothing from other hosts, which the tests do
// not reach.
remove_action('wp_head', 'print_emoji_detection_script', 7);
remove_action('admin_print_scripts', 'print_emoji_detection_script');
add_filter('emoji_svg_url', '__return_false');
add_filter('pre_option_show_avatars', '__return_zero');

// A test may activate the plugin of integrations/wordpress, with settings in constants.
if (getenv('BAKERY_ISR')) {
    add_filter('pre_option_active_plugins', function () {
        return ['isr/isr.php'];
    });
    foreach (['ISR_URL', 'ISR_SECRET', 'ISR_DRAFT_SECRET'] as $name) {
        if (getenv("BAKERY_$name")) {
            define($name, getenv("BAKERY_$name"));
        }
    }
    // A busy machine may be slower than the plugin waits, except while the test wants to see that.
    add_filter('http_request_args', function ($arguments) {
        return file_exists(getenv('BAKERY_OUTAGE')) ? $arguments : ['timeout' => 60] + $arguments;
    });
    // Lets WP-Cron believe that the pause after a failure is over.
    add_action('wp_ajax_bakery_retry', function () {
        $scheduled = wp_clear_scheduled_hook(ISR_Outbox::RETRY);
        _set_cron_array([]); // the events of WordPress look for updates, which nobody answers here
        wp_schedule_single_event(time() - 1, ISR_Outbox::RETRY);
        wp_send_json($scheduled);
    });
    // Uninstalls the plugin without its files, and says which options it has left.
    add_action('wp_ajax_bakery_uninstall', function () {
        global $wpdb;
        define('WP_UNINSTALL_PLUGIN', 'isr/isr.php');
        require WP_PLUGIN_DIR . '/isr/uninstall.php';
        wp_send_json($wpdb->get_col("SELECT option_name FROM $wpdb->options WHERE option_name LIKE '%isr\\_%'"));
    });
}
