<?php
// Makes the database: the site, two authors, and comments that are shown at once.
(new mysqli('localhost', 'root', '', '', 0, getenv('BAKERY_SOCKET')))->query('CREATE DATABASE wordpress');
define('WP_INSTALLING', true);
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Bakery', 'admin', 'admin@example.com', true, '', 'only-for-tests');
foreach (['Ann', 'Bob', 'Ann3f2a9c', 'Bob7d41e0'] as $name) {
    wp_insert_user(['user_login' => $name, 'user_pass' => 'only-for-tests', 'role' => 'author', 'display_name' => $name]);
}
foreach (['comment_previously_approved', 'comment_moderation', 'require_name_email', 'comments_notify', 'moderation_notify'] as $option) {
    update_option($option, 0);
}
wp_update_post(['ID' => 1, 'post_title' => 'Rye']);
