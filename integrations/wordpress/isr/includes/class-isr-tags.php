<?php
defined('ABSPATH') || exit;

/**
 * Names in the header Cache-Tag what a public page depends on, so that one purge of a tag reaches all pages that show it:
 *
 *   site                       every page
 *   post:ID, term:ID, author:ID  what the page shows or links
 *   home, date, feed, type:T   lists of posts: by what they are found
 *   list:T                     any other list of posts of a type, such as a widget
 *   terms, comments            lists of terms, and of comments of several posts
 *   missing                    a page that does not exist
 *   many                       a page with more tags than MAX: every purge covers it
 *
 * What a page shows is known only when it is complete. Output is buffered, and the header is sent in front of it.
 */
final class ISR_Tags {
    const MAX = 200;
    const HEADER = 'Cache-Tag';

    private static $tags = [];

    public static function hook() {
        // Earlier than what ends the request in this action, such as sitemaps and redirects.
        add_action('template_redirect', [__CLASS__, 'start'], PHP_INT_MIN);
    }

    /** Returns the tag of the current site: the sites of a network share the tags of a cache. */
    public static function of(string $tag): string {
        return (is_multisite() ? 'b' . get_current_blog_id() . ':' : '') . $tag;
    }

    /** Returns the tag of all pages of the site that a tag belongs to. */
    public static function site_of(string $tag): string {
        return preg_match('/^b\d+:/', $tag, $match) ? $match[0] . 'site' : 'site';
    }

    public static function start() {
        if (is_user_logged_in()) {
            return; // these pages are never shared
        }
        self::$tags = [];
        self::add('site');
        self::add_query();
        self::watch();
        ob_start([__CLASS__, 'finish']);
    }

    /** Sends the header, at the end of the page or when it is flushed for the first time. */
    public static function finish(string $output): string {
        if (!headers_sent()) {
            $tags = count(self::$tags) > self::MAX ? [self::of('site') => true, self::of('many') => true] : self::$tags;
            header(self::HEADER . ': ' . implode(', ', array_keys($tags)), false);
        }
        return $output;
    }

    private static function add(string $tag) {
        if (count(self::$tags) <= self::MAX) {
            self::$tags[self::of($tag)] = true;
        }
    }

    /** Adds the tags of the main query. */
    private static function add_query() {
        global $wp_query;
        foreach (['is_home' => 'home', 'is_front_page' => 'home', 'is_date' => 'date', 'is_feed' => 'feed', 'is_404' => 'missing', 'is_comment_feed' => 'comments'] as $is => $tag) {
            if ($wp_query->$is()) {
                self::add($tag);
            }
        }
        $object = get_queried_object();
        if ($object instanceof WP_Term) {
            self::add("term:{$object->term_id}");
        } elseif ($object instanceof WP_User) {
            self::add("author:{$object->ID}");
        } elseif ($object instanceof WP_Post_Type) {
            self::add("type:{$object->name}");
        } elseif ($object instanceof WP_Post) {
            self::add("post:{$object->ID}");
            self::add("author:{$object->post_author}");
        }
        foreach ((array) $wp_query->posts as $post) {
            if ($post instanceof WP_Post) {
                self::add("post:{$post->ID}");
            }
        }
        if (get_query_var('sitemap') !== '') {
            foreach (['list:any', 'terms'] as $tag) {
                self::add($tag);
            }
        }
    }

    /** Adds what the rest of the page links and lists. */
    private static function watch() {
        $post = function ($link, $post) {
            self::add('post:' . (is_object($post) ? $post->ID : (int) $post));
            return $link;
        };
        foreach (['post_link', 'page_link', 'post_type_link', 'attachment_link'] as $filter) {
            add_filter($filter, $post, 10, 2);
        }
        add_filter('term_link', function ($link, $term) {
            self::add("term:{$term->term_id}");
            return $link;
        }, 10, 2);
        add_filter('author_link', function ($link, $id) {
            self::add('author:' . (int) $id);
            return $link;
        }, 10, 2);
        add_filter('getarchives_where', function ($where) {
            self::add('date');
            return $where;
        });
        add_filter('get_pages', function ($pages, $arguments) {
            self::add('list:' . ($arguments['post_type'] ?? 'page'));
            return $pages;
        }, 10, 2);
        add_action('pre_get_posts', [__CLASS__, 'watch_posts'], PHP_INT_MAX);
        add_action('pre_get_terms', function ($query) {
            if (empty($query->query_vars['object_ids']) && array_filter((array) $query->query_vars['taxonomy'], 'is_taxonomy_viewable')) {
                self::add('terms');
            }
        });
        add_action('pre_get_comments', function ($query) {
            if (empty($query->query_vars['post_id'])) {
                self::add('comments');
            }
        });
    }

    /** Adds the types of a list of posts beside the main query. */
    public static function watch_posts(WP_Query $query) {
        if ($query->is_main_query() || $query->get('p') || $query->get('page_id') || $query->get('name') || $query->get('pagename')) {
            return;
        }
        foreach ((array) ($query->get('post_type') ?: 'post') as $type) {
            if ($type === 'any' || is_post_type_viewable($type)) {
                self::add("list:$type");
            }
        }
    }
}
