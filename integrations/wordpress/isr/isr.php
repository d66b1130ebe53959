<?php
/**
 * Plugin Name:       isr page cache
 * Description:       Purges the pages of the isr cache in front of this site when content changes, shows what the cache has of a page, and opens previews through it.
 * Version:           1.0.0
 * Requires at least: 5.9
 * Requires PHP:      7.4
 * License:           Apache-2.0
 * License URI:       https://www.apache.org/licenses/LICENSE-2.0
 * Text Domain:       isr
 * Network:           true
 */

defined('ABSPATH') || exit;

// This file is loaded twice if the folder is installed as a plugin and is required by another one.
if (defined('ISR_PLUGIN_FILE')) {
    return;
}
define('ISR_PLUGIN_FILE', __FILE__);

// What changes     ──► ISR_Changes ──► ISR_Outbox ──► ISR_Client ──► isr, by a signed webhook
// What is rendered ──► ISR_Tags, which names in Cache-Tag what a page depends on
foreach (['settings', 'client', 'tags', 'outbox', 'changes', 'preview', 'bar', 'admin'] as $isr_part) {
    require_once __DIR__ . "/includes/class-isr-$isr_part.php";
}
unset($isr_part);

ISR_Tags::hook();
ISR_Outbox::hook();
ISR_Changes::hook();
ISR_Preview::hook();
ISR_Bar::hook();
ISR_Admin::hook();

register_deactivation_hook(__FILE__, ['ISR_Outbox', 'unschedule']);
