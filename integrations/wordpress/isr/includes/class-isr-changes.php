<?php
defined('ABSPATH') || exit;

/**
 * Finds the tags of the pages that a change of content makes old. A change of a post purges the pages that show it; one that
 * moves it in lists, such as its publication, purges the lists too.
 */
final class ISR_Changes {
    /** Types without pages of their own that are parts of all pages. */
    const SITE_TYPES = ['wp_template', 'wp_template_part', 'wp_navigation', 'wp_global_styles', 'wp_block', 'custom_css', 'wp_font_family', 'wp_font_face'];

    /** Options that are part of all pages; those that end in _ by their beginning. */
    const SITE_OPTIONS = [
        'blogname', 'blogdescription', 'siteurl', 'home', 'WPLANG', 'site_icon', 'site_logo', 'blog_public', 'template', 'stylesheet',
        'show_on_front', 'page_on_front', 'page_for_posts', 'posts_per_page', 'posts_per_rss', 'rss_use_excerpt', 'sticky_posts',
        'permalink_structure', 'category_base', 'tag_base', 'date_format', 'time_format', 'start_of_week', 'timezone_string', 'gmt_offset',
        'show_avatars', 'avatar_default', 'avatar_rating', 'thread_comments', 'thread_comments_depth', 'page_comments', 'comments_per_page',
        'default_comments_page', 'comment_order', 'comment_registration', 'close_comments_for_old_posts', 'close_comments_days_old',
        'sidebars_widgets', 'theme_mods_', 'widget_',
    ];

    public static function hook() {
        add_action('transition_post_status', [__CLASS__, 'post_moved'], 10, 3);
        add_action('post_updated', [__CLASS__, 'post_updated'], 10, 3);
        add_action('before_delete_post', [__CLASS__, 'post_deleted'], 10, 2);
        add_action('delete_attachment', [__CLASS__, 'post_deleted'], 10, 2);
        add_action('set_object_terms', [__CLASS__, 'terms_set'], 10, 6);

        add_action('wp_insert_comment', [__CLASS__, 'comment_changed'], 10, 2);
        add_action('delete_comment', [__CLASS__, 'comment_changed'], 10, 2);
        add_action('edit_comment', [__CLASS__, 'comment_changed']);
        add_action('transition_comment_status', [__CLASS__, 'comment_moved'], 10, 3);

        add_action('created_term', [__CLASS__, 'term_created'], 10, 3);
        add_action('edited_term', [__CLASS__, 'term_changed'], 10, 3);
        add_action('pre_delete_term', function ($id, $taxonomy) {
            self::term_changed($id, 0, $taxonomy);
        }, 10, 2);

        foreach (['profile_update', 'delete_user'] as $action) {
            add_action($action, function ($id) {
                ISR_Outbox::add(['author:' . (int) $id]);
            });
        }
        foreach (['switch_theme', 'customize_save_after', 'wp_update_nav_menu', 'wp_delete_nav_menu', 'activated_plugin', 'deactivated_plugin', 'upgrader_process_complete'] as $action) {
            add_action($action, [__CLASS__, 'site_changed'], 10, 0);
        }
        foreach (['added_option', 'updated_option', 'deleted_option'] as $action) {
            add_action($action, [__CLASS__, 'option_changed']);
        }
    }

    public static function site_changed() {
        ISR_Outbox::add(['site']);
    }

    public static function option_changed($name) {
        foreach (self::SITE_OPTIONS as $option) {
            if ($name === $option || substr($option, -1) === '_' && strpos($name, $option) === 0) {
                self::site_changed();
                return;
            }
        }
    }

    public static function post_moved($new, $old, $post) {
        if ($new === $old || !self::is_public($new) && !self::is_public($old)) {
            return; // post_updated knows what else has changed
        }
        self::moved($post);
    }

    public static function post_updated($id, $after, $before) {
        if (!self::is_shown($after) && !self::is_shown($before)) {
            return;
        }
        foreach (['post_author', 'post_date', 'post_parent', 'menu_order', 'post_type', 'post_password'] as $field) {
            if ($after->$field != $before->$field) {
                self::moved($before);
                self::moved($after);
                return;
            }
        }
        self::shown($after);
    }

    public static function post_deleted($id, $post) {
        if (self::is_shown($post)) {
            self::moved($post);
        }
    }

    public static function terms_set($id, $terms, $after, $taxonomy, $append, $before) {
        $post = get_post($id);
        $changed = array_merge(array_diff($after, $before), $append ? [] : array_diff($before, $after));
        if (!$post || !$changed || !self::is_shown($post) || !is_taxonomy_viewable($taxonomy)) {
            return;
        }
        self::shown($post);
        ISR_Outbox::add(['terms', 'list:any', "list:{$post->post_type}"]);
        foreach ($changed as $term_taxonomy) {
            $term = get_term_by('term_taxonomy_id', $term_taxonomy);
            if ($term) {
                ISR_Outbox::add(self::lists_of_term($term));
            }
        }
    }

    /** Purges the pages that show a post. */
    private static function shown(WP_Post $post) {
        if (in_array($post->post_type, self::SITE_TYPES, true)) {
            self::site_changed();
        } elseif (is_post_type_viewable($post->post_type)) {
            ISR_Outbox::add(["post:{$post->ID}"]);
        }
    }

    /** Purges the pages that show a post, and those that list it or do so from now on. */
    private static function moved(WP_Post $post) {
        self::shown($post);
        if (!is_post_type_viewable($post->post_type) || $post->post_type === 'attachment') {
            return;
        }
        ISR_Outbox::add(['home', 'feed', 'date', 'terms', 'missing', "type:{$post->post_type}", "list:{$post->post_type}", 'list:any', "author:{$post->post_author}"]);
        foreach (array_filter(get_object_taxonomies($post->post_type), 'is_taxonomy_viewable') as $taxonomy) {
            foreach (wp_get_object_terms($post->ID, $taxonomy) ?: [] as $term) {
                if ($term instanceof WP_Term) {
                    ISR_Outbox::add(self::lists_of_term($term));
                }
            }
        }
        self::neighbours($post);
    }

    /** The archive of a term also lists the posts of the terms below it. */
    private static function lists_of_term(WP_Term $term): array {
        $tags = ["term:{$term->term_id}"];
        foreach (get_ancestors($term->term_id, $term->taxonomy, 'taxonomy') as $id) {
            $tags[] = "term:$id";
        }
        return $tags;
    }

    /** The posts before and after a post link it. */
    private static function neighbours(WP_Post $post) {
        if ($post->post_type !== 'post') {
            return;
        }
        $global = $GLOBALS['post'] ?? null;
        $GLOBALS['post'] = $post;
        foreach ([true, false] as $previous) {
            $neighbour = get_adjacent_post(false, '', $previous);
            if ($neighbour instanceof WP_Post) {
                ISR_Outbox::add(["post:{$neighbour->ID}"]);
            }
        }
        $GLOBALS['post'] = $global;
    }

    public static function comment_changed($id, $comment = null) {
        $comment = $comment instanceof WP_Comment ? $comment : get_comment($id);
        if ($comment && (string) $comment->comment_approved === '1') {
            ISR_Outbox::add(['comments', 'post:' . (int) $comment->comment_post_ID]);
        }
    }

    public static function comment_moved($new, $old, $comment) {
        if ($new === 'approved' || $old === 'approved') {
            ISR_Outbox::add(['comments', 'post:' . (int) $comment->comment_post_ID]);
        }
    }

    public static function term_created($id, $term_taxonomy, $taxonomy) {
        if (is_taxonomy_viewable($taxonomy)) {
            ISR_Outbox::add(['terms']);
        }
    }

    public static function term_changed($id, $term_taxonomy, $taxonomy) {
        $term = get_term((int) $id, $taxonomy);
        if ($term instanceof WP_Term && is_taxonomy_viewable($taxonomy)) {
            ISR_Outbox::add(array_merge(['terms'], self::lists_of_term($term)));
        }
    }

    private static function is_public(string $status): bool {
        $object = get_post_status_object($status);
        return $object && $object->public;
    }

    /** Reports whether visitors may see a post. Attachments have the status of their parent. */
    private static function is_shown(WP_Post $post): bool {
        return self::is_public($post->post_status) || $post->post_type === 'attachment';
    }
}
