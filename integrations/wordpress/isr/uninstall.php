<?php
// Removes what the plugin has stored, on all sites of a network.
defined('WP_UNINSTALL_PLUGIN') || exit;

$isr_clean = function () {
    global $wpdb;
    $names = $wpdb->get_col($wpdb->prepare(
        "SELECT option_name FROM {$wpdb->options} WHERE option_name LIKE %s OR option_name LIKE %s OR option_name = 'isr_failure'",
        $wpdb->esc_like('isr_pending_') . '%',
        $wpdb->esc_like('_transient_isr_result_') . '%'
    ));
    foreach ($names as $name) {
        if (strpos($name, '_transient_') === 0) {
            delete_transient(substr($name, strlen('_transient_')));
        } else {
            delete_option($name);
        }
    }
    wp_clear_scheduled_hook('isr_retry');
    wp_clear_scheduled_hook('isr_hourly');
};

if (is_multisite()) {
    foreach (get_sites(['fields' => 'ids', 'number' => 0]) as $isr_site) {
        switch_to_blog($isr_site);
        $isr_clean();
        restore_current_blog();
    }
} else {
    $isr_clean();
}
delete_site_option('isr_settings');
