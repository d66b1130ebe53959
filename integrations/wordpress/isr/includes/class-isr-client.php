<?php
defined('ABSPATH') || exit;

/**
 * Sends signed webhooks to isr. The format is the provider "generic" of isr, with the targets "tag:{payload.tags.*}" and
 * "url:{payload.urls.*}".
 */
final class ISR_Client {
    /** How long a request may take, in seconds: an editor may wait for it. isr answers half a second after the last change. */
    const TIMEOUT = 2;

    const TEST_TAG = 'isr-connection-test';

    /** Purges pages by tags and URLs. Returns true, or an error that says what to do. */
    public static function purge(array $tags, array $urls) {
        $reply = self::send($tags, $urls, false);
        return is_wp_error($reply) ? $reply : true;
    }

    /** Tries address, secret, clock and targets, and purges nothing. Returns true, or an error that says what to do. */
    public static function test() {
        $url = home_url('/');
        $reply = self::send([self::TEST_TAG], [$url], true);
        if (is_wp_error($reply)) {
            return $reply;
        }
        $targets = isset($reply['targets']) && is_array($reply['targets']) ? $reply['targets'] : [];
        if (!in_array('tag ' . self::TEST_TAG, $targets, true) || count($targets) < 2) {
            return new WP_Error('isr_targets', __('The secret is right, but the hook does not purge what this plugin sends. Write into the hook in isr.yaml: targets: ["tag:{payload.tags.*}", "url:{payload.urls.*}"]', 'isr'));
        }
        return true;
    }

    private static function send(array $tags, array $urls, bool $ping) {
        $endpoint = ISR_Settings::endpoint();
        if (is_wp_error($endpoint)) {
            return $endpoint;
        }
        if (ISR_Settings::get('secret') === '') {
            return new WP_Error('isr_secret', __('The secret is not set. It is the secret of the hook in isr.yaml.', 'isr'));
        }
        $body = wp_json_encode(['tags' => array_values($tags), 'urls' => array_values($urls)]);
        $at = (string) time();
        $headers = [
            'Content-Type'    => 'application/json',
            'X-ISR-Timestamp' => $at,
            'X-ISR-Signature' => 'sha256=' . hash_hmac('sha256', "$at.$body", ISR_Settings::get('secret')),
        ];
        if ($ping) {
            $headers['X-ISR-Event'] = 'ping';
        }
        $response = wp_remote_post($endpoint, [
            'body'                => $body,
            'headers'             => $headers,
            'timeout'             => self::TIMEOUT,
            'redirection'         => 0, // the signature is for this address
            'limit_response_size' => 64 * 1024,
        ]);
        if (is_wp_error($response)) {
            return self::explain_failure($response->get_error_message(), $endpoint);
        }
        $reply = json_decode(wp_remote_retrieve_body($response), true);
        if (wp_remote_retrieve_response_code($response) === 200 && is_array($reply) && (isset($reply['receipt']) || isset($reply['duplicate']) || isset($reply['message']))) {
            return $reply;
        }
        return self::explain_response($response, $reply, $endpoint);
    }

    /** The words by which the transports of WordPress, cURL and streams, name a failure. */
    private static function explain_failure(string $message, string $endpoint): WP_Error {
        $host = wp_parse_url($endpoint, PHP_URL_HOST);
        $advice = [
            'certificate|ssl|tls|crypto'             => ['isr_tls', __('TLS failed. The certificate must be valid for the host of the address, and this server must trust it; a listener without TLS is reached by http://.', 'isr')],
            'could not resolve|getaddrinfo|name or service' => ['isr_address', __('The host of the address is not known. Correct the address, or the DNS of this server.', 'isr')],
            'refused'                                => ['isr_address', __('Nothing listens there. Start isr, or give the address of its admin API (admin.address in isr.yaml), as this server reaches it.', 'isr')],
            'timed out|timeout'                      => ['isr_timeout', __('No answer in time. Check that isr runs, and that no firewall is between this server and it.', 'isr')],
            'blocked requests'                       => ['isr_blocked', __('WP_HTTP_BLOCK_EXTERNAL is set in wp-config.php. Add the host to WP_ACCESSIBLE_HOSTS.', 'isr')],
            'unreachable|no route'                   => ['isr_address', __('The network does not reach the address. Correct the address.', 'isr')],
        ];
        $code = 'isr_failed';
        $what = __('The request failed.', 'isr');
        foreach ($advice as $words => $found) {
            if (preg_match("/$words/i", $message)) {
                list($code, $what) = $found;
                break;
            }
        }
        /* translators: 1: host, 2: advice, 3: error message */
        return new WP_Error($code, sprintf(__('isr at %1$s was not reached. %2$s (%3$s)', 'isr'), $host, $what, substr($message, 0, 300)));
    }

    private static function explain_response($response, $reply, string $endpoint): WP_Error {
        $status = (int) wp_remote_retrieve_response_code($response);
        $error = is_array($reply) && isset($reply['error']) && is_array($reply['error']) ? $reply['error'] : null;
        if ($error === null) {
            /* translators: 1: URL, 2: status code */
            return new WP_Error('isr_address', sprintf(__('%1$s answered %2$d, but not as isr does: the address is that of another server, or something between this server and isr answered. Give the address of the admin API of isr, or with "public: true" below "triggers" the public address of the site.', 'isr'), $endpoint, $status));
        }
        $message = substr(is_string($error['message'] ?? null) ? $error['message'] : '', 0, 300);
        if ($status === 401) {
            return self::explain_signature($message, wp_remote_retrieve_header($response, 'date'));
        }
        $advice = [
            404 => ['isr_hook', __('isr has no such hook. Name it wordpress below triggers.hooks in isr.yaml, and reload isr.', 'isr')],
            409 => ['isr_pinned', __('A pinned page cannot be purged hard. Unpin it, or remove "hard" from the hook.', 'isr')],
            421 => ['isr_address', __('isr does not serve this host. Give a host of "hosts" in isr.yaml, or the address of the admin API.', 'isr')],
            422 => ['isr_targets', __('The hook does not purge what this plugin sends. Write into the hook in isr.yaml: targets: ["tag:{payload.tags.*}", "url:{payload.urls.*}"]', 'isr')],
            503 => ['isr_busy', __('isr cannot purge now. The purge is repeated.', 'isr')],
        ];
        list($code, $what) = $advice[$status] ?? ['isr_refused', __('isr refused the request.', 'isr')];
        /* translators: 1: advice, 2: status code, 3: message of isr */
        return new WP_Error($code, sprintf(__('%1$s (%2$d: %3$s)', 'isr'), $what, $status, $message));
    }

    private static function explain_signature(string $message, $date): WP_Error {
        if (strpos($message, 'another secret') !== false) {
            return new WP_Error('isr_secret', __('The secret is wrong. Give the secret of the hook in isr.yaml (secrets), without spaces or line breaks around it. If they are the same, something between this server and isr changes the request.', 'isr'));
        }
        if (strpos($message, ' ago;') !== false || strpos($message, 'in the future') !== false) {
            $theirs = is_string($date) ? strtotime($date) : false;
            /* translators: 1: message of isr, 2: number of seconds */
            return new WP_Error('isr_clock', sprintf(__('The clocks differ: %1$s. Set the clocks of this server and of isr by NTP. This server is %2$d seconds ahead of isr.', 'isr'), $message, $theirs === false ? 0 : time() - $theirs));
        }
        /* translators: %s: message of isr */
        return new WP_Error('isr_provider', sprintf(__('isr did not accept the signature: %s. The hook in isr.yaml must have "provider: generic".', 'isr'), $message));
    }
}
