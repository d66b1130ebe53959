<?php
defined('ABSPATH') || exit;

/**
 * Opens previews through isr. The link has two proofs, both until the same time:
 *
 *   isr-draft    the token of isr's draft mode, which isr exchanges for a cookie: the request bypasses the cache, and its
 *                response is stored nowhere
 *   isr-preview  the signature of this site for one post, which makes WordPress show it
 *
 * The header X-Isr-Draft alone shows nothing: whoever reaches this server without isr could send it.
 */
final class ISR_Preview {
    const PARAMETER = 'isr-preview';
    const LIFE = HOUR_IN_SECONDS;
    const STATUSES = ['draft', 'pending', 'future'];

    public static function hook() {
        add_filter('preview_post_link', [__CLASS__, 'link'], 10, 2);
        add_action('pre_get_posts', [__CLASS__, 'show']);
    }

    public static function link($link, $post) {
        $post = get_post($post);
        $secret = ISR_Settings::get('draft_secret');
        if ($secret === '' || !$post || !in_array($post->post_status, self::STATUSES, true) || !current_user_can('edit_post', $post->ID)) {
            return $link;
        }
        // The same link for some minutes: editors compare it.
        $expires = intdiv(time(), 300) * 300 + 300 + self::LIFE;
        $token = self::token($secret, self::host($link), $expires);
        return add_query_arg([self::PARAMETER => "{$post->ID}.$expires." . self::signature($post->ID, $expires), 'isr-draft' => $token], $link);
    }

    /** Returns a token for all paths of a host, in the format of internal/draft of isr. */
    private static function token(string $secret, string $host, int $expires): string {
        $mac = hash_hmac('sha256', "isr-draft-1\n$host\n/\n$expires", $secret, true);
        return "1.$expires." . self::base64url('/') . '.' . self::base64url($mac);
    }

    private static function base64url(string $bytes): string {
        return rtrim(strtr(base64_encode($bytes), '+/', '-_'), '=');
    }

    /** Returns the host of a URL with a port that is not the default. */
    private static function host(string $url): string {
        $parts = wp_parse_url($url);
        $host = strtolower($parts['host'] ?? '');
        return $host . (isset($parts['port']) && !in_array($parts['port'], [80, 443], true) ? ':' . $parts['port'] : '');
    }

    private static function signature(int $id, int $expires): string {
        return hash_hmac('sha256', "isr-preview|$id|$expires", wp_salt('auth'));
    }

    /** Returns the post that the request may show although it is not published, or 0. */
    private static function granted(): int {
        $text = $_GET[self::PARAMETER] ?? '';
        if (!is_string($text) || !preg_match('/^([1-9]\d{0,18})\.([1-9]\d{0,10})\.([0-9a-f]{64})$/', $text, $match) || ($_SERVER['HTTP_X_ISR_DRAFT'] ?? '') !== '1') {
            return 0;
        }
        list(, $id, $expires, $signature) = $match;
        return hash_equals(self::signature((int) $id, (int) $expires), $signature) && time() < (int) $expires ? (int) $id : 0;
    }

    /** Shows the post to a request with a valid link. Users who have logged in get the preview of WordPress. */
    public static function show(WP_Query $query) {
        if (!$query->is_main_query() || is_admin() || is_user_logged_in()) {
            return;
        }
        $granted = self::granted();
        if ($granted === 0 || $granted !== (int) ($query->get('p') ?: $query->get('page_id'))) {
            return;
        }
        // The status of this request must not get into an object cache that outlives it.
        $query->set('cache_results', false);
        add_filter('posts_results', function ($posts, $of) use ($query, $granted) {
            if ($of === $query && count($posts) === 1 && (int) $posts[0]->ID === $granted && in_array($posts[0]->post_status, self::STATUSES, true)) {
                $posts[0]->post_status = 'publish'; // for this request
                $posts[0]->comment_status = 'closed';
            }
            return $posts;
        }, 10, 2);
        add_filter('redirect_canonical', '__return_false');
        add_filter('wp_robots', 'wp_robots_no_robots');
        add_action('template_redirect', 'nocache_headers');
    }
}
