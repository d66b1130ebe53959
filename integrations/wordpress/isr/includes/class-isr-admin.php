<?php
defined('ABSPATH') || exit;

/** The settings page with its connection test, and the notices for administrators. */
final class ISR_Admin {
    const PAGE = 'isr';
    const ACTIONS = ['save', 'test', 'retry', 'purge_all'];

    public static function hook() {
        add_action(is_multisite() ? 'network_admin_menu' : 'admin_menu', [__CLASS__, 'menu']);
        foreach (['admin_notices', 'network_admin_notices'] as $action) {
            add_action($action, [__CLASS__, 'notices']);
        }
        foreach (self::ACTIONS as $name) {
            add_action("admin_post_isr_$name", function () use ($name) {
                self::perform($name);
            });
        }
        $links = (is_multisite() ? 'network_admin_' : '') . 'plugin_action_links_' . plugin_basename(ISR_PLUGIN_FILE);
        add_filter($links, function ($links) {
            return array_merge(['<a href="' . esc_url(self::url()) . '">' . esc_html__('Settings', 'isr') . '</a>'], $links);
        });
    }

    public static function url(): string {
        return is_multisite() ? network_admin_url('settings.php?page=' . self::PAGE) : admin_url('options-general.php?page=' . self::PAGE);
    }

    public static function menu() {
        $title = __('isr page cache', 'isr');
        if (is_multisite()) {
            add_submenu_page('settings.php', $title, $title, ISR_Settings::capability(), self::PAGE, [__CLASS__, 'page']);
        } else {
            add_options_page($title, $title, ISR_Settings::capability(), self::PAGE, [__CLASS__, 'page']);
        }
    }

    /** Shows the result of the last action, and why purges wait. */
    public static function notices() {
        if (!current_user_can(ISR_Settings::capability())) {
            return;
        }
        $key = 'isr_result_' . get_current_user_id();
        $result = get_transient($key);
        if (is_array($result) && isset($result['ok'], $result['message'])) {
            delete_transient($key);
            self::notice($result['ok'] ? 'success' : 'error', esc_html($result['message']));
        }
        $failure = ISR_Outbox::failure();
        if ($failure) {
            /* translators: 1: error message, 2: duration such as "5 mins" */
            $text = sprintf(__('isr: pages were not purged; visitors may see old ones. %1$s Failing for %2$s. It is tried again by WP-Cron.', 'isr'), $failure['message'], human_time_diff($failure['since']));
            self::notice('error', esc_html($text) . ' ' . self::button('retry', __('Try now', 'isr')) . ' <a href="' . esc_url(self::url()) . '">' . esc_html__('Settings', 'isr') . '</a>');
        } elseif (!ISR_Settings::complete() && in_array(get_current_screen()->id ?? '', ['plugins', 'plugins-network'], true)) {
            self::notice('warning', esc_html__('isr page cache has no address and secret yet, and purges nothing.', 'isr') . ' <a href="' . esc_url(self::url()) . '">' . esc_html__('Settings', 'isr') . '</a>');
        }
    }

    /** The HTML is escaped by the caller. */
    private static function notice(string $class, string $html) {
        echo '<div class="notice notice-' . esc_attr($class) . ' isr-notice"><p>' . $html . '</p></div>';
    }

    /** Returns a form with one button. */
    private static function button(string $name, string $label): string {
        return '<form method="post" action="' . esc_url(admin_url('admin-post.php')) . '" style="display:inline">'
            . '<input type="hidden" name="action" value="isr_' . esc_attr($name) . '">' . wp_nonce_field("isr_$name", '_wpnonce', true, false)
            . '<button class="button">' . esc_html($label) . '</button></form>';
    }

    private static function perform(string $name) {
        if (!current_user_can(ISR_Settings::capability())) {
            wp_die(esc_html__('You may not change the settings of the cache.', 'isr'), '', ['response' => 403]);
        }
        check_admin_referer("isr_$name");
        $messages = [
            'save'      => __('Saved.', 'isr'),
            'test'      => __('isr answers, the secret is right, and the hook purges what this plugin sends.', 'isr'),
            'retry'     => __('Purged what had waited.', 'isr'),
            'purge_all' => __('Purged all pages of this site.', 'isr'),
        ];
        $done = self::{$name}();
        $result = is_wp_error($done) ? ['ok' => false, 'message' => $done->get_error_message()] : ['ok' => true, 'message' => $messages[$name]];
        set_transient('isr_result_' . get_current_user_id(), $result, MINUTE_IN_SECONDS);
        wp_safe_redirect(self::url());
        exit;
    }

    private static function test() {
        return ISR_Client::test();
    }

    private static function retry() {
        return ISR_Outbox::flush();
    }

    private static function purge_all() {
        return ISR_Outbox::purge_now(['site'], []);
    }

    /** Nonce and capability are checked by perform. An empty secret leaves the stored one. */
    private static function save() {
        $text = function (string $name): string {
            return isset($_POST[$name]) && is_string($_POST[$name]) ? trim(wp_unslash($_POST[$name])) : '';
        };
        $changed = [];
        if (!ISR_Settings::is_constant('url')) {
            $changed['url'] = esc_url_raw($text('isr_url'), ['http', 'https']);
        }
        foreach (['secret', 'draft_secret'] as $name) {
            if (!ISR_Settings::is_constant($name) && $text("isr_$name") !== '') {
                $changed[$name] = $text("isr_$name");
            }
        }
        if ($text('isr_no_drafts') !== '') {
            $changed['draft_secret'] = '';
        }
        $saved = ISR_Settings::save($changed);
        return is_wp_error($saved) ? $saved : ISR_Outbox::flush();
    }

    public static function page() {
        if (!current_user_can(ISR_Settings::capability())) {
            return;
        }
        ?>
        <div class="wrap">
            <h1><?php esc_html_e('isr page cache', 'isr'); ?></h1>
            <form method="post" action="<?php echo esc_url(admin_url('admin-post.php')); ?>">
                <input type="hidden" name="action" value="isr_save">
                <?php wp_nonce_field('isr_save'); ?>
                <table class="form-table" role="presentation">
                    <?php
                    self::field('url', __('Address of isr', 'isr'), __('The address of its admin API, as this server reaches it, such as http://127.0.0.1:9180. With "public: true" below "triggers" in isr.yaml: the public address of the site.', 'isr'));
                    self::field('secret', __('Secret of the hook', 'isr'), __('What isr.yaml names below triggers.hooks.wordpress.secrets. Make one with: openssl rand -hex 32', 'isr'));
                    self::field('draft_secret', __('Secret of drafts', 'isr'), __('Optional: what isr.yaml names below draft.secrets. With it, preview links of unpublished posts work for an hour for anyone who has the link, and bypass the cache.', 'isr'));
                    ?>
                </table>
                <?php if (!ISR_Settings::is_constant('draft_secret') && ISR_Settings::get('draft_secret') !== '') : ?>
                    <p><label><input type="checkbox" name="isr_no_drafts" value="1"> <?php esc_html_e('Remove the secret of drafts', 'isr'); ?></label></p>
                <?php endif; ?>
                <?php submit_button(); ?>
            </form>
            <h2><?php esc_html_e('Connection', 'isr'); ?></h2>
            <p><?php echo self::button('test', __('Test the connection', 'isr')), ' ', self::button('purge_all', __('Purge all pages of this site', 'isr')); // phpcs:ignore -- escaped in button ?></p>
            <?php /* translators: %d: number of requests */ ?>
            <p><?php echo esc_html(sprintf(__('Changes that wait to be purged: %d.', 'isr'), count(ISR_Outbox::pending()))); ?></p>
        </div>
        <?php
    }

    /** Secrets are never shown. */
    private static function field(string $name, string $label, string $help) {
        $secret = $name !== 'url';
        $fixed = ISR_Settings::is_constant($name);
        $there = ISR_Settings::get($name) !== '';
        ?>
        <tr>
            <th scope="row"><label for="isr_<?php echo esc_attr($name); ?>"><?php echo esc_html($label); ?></label></th>
            <td>
                <input class="regular-text" id="isr_<?php echo esc_attr($name); ?>" name="isr_<?php echo esc_attr($name); ?>"
                    type="<?php echo $secret ? 'password' : 'text'; ?>" autocomplete="<?php echo $secret ? 'new-password' : 'off'; ?>"
                    value="<?php echo $secret ? '' : esc_attr(ISR_Settings::get($name)); ?>"
                    placeholder="<?php echo $secret && $there ? esc_attr__('set; leave empty to keep it', 'isr') : ''; ?>" <?php disabled($fixed); ?>>
                <p class="description">
                    <?php
                    echo esc_html($help);
                    if ($fixed) {
                        /* translators: %s: name of a PHP constant */
                        echo ' ', esc_html(sprintf(__('Set by %s in wp-config.php.', 'isr'), ISR_Settings::CONSTANTS[$name]));
                    }
                    ?>
                </p>
            </td>
        </tr>
        <?php
    }
}
