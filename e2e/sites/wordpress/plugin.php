<?php
// A plugin that is always active: pages request nothing from other hosts, which the tests do
// not reach.
remove_action('wp_head', 'print_emoji_detection_script', 7);
remove_action('admin_print_scripts', 'print_emoji_detection_script');
add_filter('emoji_svg_url', '__return_false');
add_filter('pre_option_show_avatars', '__return_zero');

// A test may add the plugin of docs/webhooks.md.
if (getenv('BAKERY_PLUGIN')) {
    define('ISR_SECRET', getenv('BAKERY_SECRET'));
    require getenv('BAKERY_PLUGIN');
}
