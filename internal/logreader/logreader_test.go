package logreader_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/logreader"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

// Lines as the documentation of each server has them.
func TestFormats(t *testing.T) {
	for _, test := range []struct {
		name, format, log string
		want              logreader.Entry
	}{
		{
			"common, of Apache", "combined", `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`,
			logreader.Entry{Time: at("2000-10-10T13:55:36-07:00"), Method: "GET", URI: "/apache_pb.gif", Status: 200, Bytes: 2326},
		},
		{
			"combined, of Apache", "combined", `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif?a=1&b=%20 HTTP/1.0" 304 - "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"`,
			logreader.Entry{Time: at("2000-10-10T13:55:36-07:00"), Method: "GET", URI: "/apache_pb.gif?a=1&b=%20", Status: 304},
		},
		{
			"with a host, of Debian", "combined", `www.example.com:443 192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "HEAD /a\x22b HTTP/2.0" 200 5 "-" "\"x\" y"`,
			logreader.Entry{Time: at("2026-10-10T13:55:36Z"), Method: "HEAD", Host: "www.example.com:443", URI: `/a"b`, Status: 200, Bytes: 5},
		},
		{
			"with $request_time of nginx", "combined", `192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "POST /form HTTP/1.1" 302 5 "-" "curl/8" "-" 0.250`,
			logreader.Entry{Time: at("2026-10-10T13:55:36Z"), Method: "POST", URI: "/form", Status: 302, Bytes: 5, Took: 250 * time.Millisecond},
		},
		{
			"text, of isr", "combined", `192.0.2.7 - - [23/Nov/2026:17:05:00 +0000] "GET /news?page=2 HTTP/1.1" 200 5120 "-" "curl/8" host=example.com route="/" cache=hit reason=- age=5 generation=g duration=0.000150 render=0.000000`,
			logreader.Entry{Time: at("2026-11-23T17:05:00Z"), Method: "GET", Host: "example.com", URI: "/news?page=2", Status: 200, Bytes: 5120, Took: 150 * time.Microsecond},
		},
		{
			"log_format of nginx", "json", `{"time_iso8601":"2026-10-10T13:55:36+02:00","remote_addr":"192.0.2.7","status": "200","body_bytes_sent":"612","request_time":"0.005","request_method":"GET","request_uri":"\/a?b=1","http_user_agent":"curl/8","host":"example.com"}`,
			logreader.Entry{Time: at("2026-10-10T13:55:36+02:00"), Method: "GET", Host: "example.com", URI: "/a?b=1", Status: 200, Bytes: 612, Took: 5 * time.Millisecond},
		},
		{
			"the same with msec and request", "json", `{"msec":1791640536.250,"request":"GET https://example.com/a HTTP/1.1","status":404,"bytes_sent":9,"sent_http_cache_control":"max-age=60"}`,
			logreader.Entry{Time: at("2026-10-10T13:55:36.25Z"), Method: "GET", Host: "example.com", URI: "/a", Status: 404, Bytes: 9, CacheControl: "max-age=60"},
		},
		{
			"JSON, of isr", "json", `{"time":"2026-11-23T17:05:00.000000Z","client.address":"192.0.2.7","http.request.method":"GET","url.scheme":"https","server.address":"example.com","url.path":"/news","url.query":"page=2","http.response.status_code":200,"http.response.body.size":5120,"http.server.request.duration":0.000150,"isr.cache":"hit"}`,
			logreader.Entry{Time: at("2026-11-23T17:05:00Z"), Method: "GET", Host: "example.com", URI: "/news?page=2", Status: 200, Bytes: 5120, Took: 150 * time.Microsecond},
		},
		{
			"Caddy", "caddy", `{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"]},"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2","server_name":"example.com"}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Encoding":["gzip"],"Content-Type":["text/html; charset=utf-8"],"Cache-Control":["private"],"Set-Cookie":["REDACTED"]}}`,
			logreader.Entry{Time: at("2022-03-09T21:30:01.524102Z"), Method: "GET", Host: "localhost", URI: "/", Status: 200, Bytes: 10900, Took: 929675 * time.Nanosecond, CacheControl: "private", SetsCookie: true},
		},
		{
			"Application Load Balancer", "alb", `h2 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 10.0.1.252:48160 10.0.0.66:9000 0.000 0.002 0.001 200 200 5 257 "GET https://10.0.2.105:773/?a=b HTTP/2.0" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337327-72bd00b0343d75b906739c42" "-" "-" 1 2018-07-02T22:22:48.364000Z "redirect" "https://example.com:80/" "-" "10.0.0.66:9000" "200" "-" "-" TID_1234abcd5678ef90`,
			logreader.Entry{Time: at("2018-07-02T22:23:00.186641Z"), Method: "GET", Host: "10.0.2.105:773", URI: "/?a=b", Status: 200, Bytes: 257, Took: 3 * time.Millisecond},
		},
		{
			"CloudFront", "cloudfront", strings.Join([]string{
				"#Version: 1.0",
				"#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end",
				"2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0%20(Windows%20NT%2010.0)\ta=%2520b\t-\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\texample.com\thttps\t23\t0.001\t-\tTLSv1.2\tECDHE-RSA-AES128-GCM-SHA256\tHit\tHTTP/2.0\t-\t-\t11040\t0.001\tHit\ttext/html\t78\t-\t-",
			}, "\n"),
			logreader.Entry{Time: at("2019-12-04T21:02:31Z"), Method: "GET", Host: "example.com", URI: "/index.html?a=%20b", Status: 200, Bytes: 392, Took: time.Millisecond},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, format := range []string{"", test.format} {
				r, err := logreader.New("log", zipped(t, test.log+"\n"), format)
				if err != nil {
					t.Fatal(err)
				}
				var got logreader.Entry
				if err := r.Next(&got); err != nil {
					t.Fatalf("%v: %v", err, r.Examples)
				}
				if !got.Time.Equal(test.want.Time) {
					t.Errorf("the time is %s, want %s", got.Time, test.want.Time)
				}
				got.Time = test.want.Time
				if got != test.want {
					t.Errorf("the entry is %+v, want %+v", got, test.want)
				}
				if err := r.Next(&got); err != io.EOF { //nolint:errorlint // as a Reader returns it
					t.Errorf("after the last entry: %v", err)
				}
			}
		})
	}
}

// zipped compresses a log.
func zipped(t *testing.T, log string) io.Reader {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(log)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

const line = `192.0.2.7 - - [10/Oct/2026:13:55:%02d +0000] "GET /%s HTTP/1.1" 200 5 "-" "-"` + "\n"

// Lines that are no entries are counted, and the first ones kept, within bounds.
func TestInvalidLines(t *testing.T) {
	log := fmt.Sprintf(line, 1, "a") + "\n" + "no entry\n" + strings.Repeat("x", 3*logreader.MaxLine) + "\n" +
		`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03\x01" 400 5 "-" "-"` + "\n" +
		`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET /b HTTP/1.1" 999 5 "-" "-"` + "\n" + strings.TrimSuffix(fmt.Sprintf(line, 2, "b"), "\n")
	r, err := logreader.New("access.log", strings.NewReader(log), "")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for {
		var e logreader.Entry
		if err := r.Next(&e); err == io.EOF { //nolint:errorlint // as a Reader returns it
			break
		} else if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, e.URI)
	}
	if fmt.Sprint(paths) != "[/a /b]" || r.Lines != 7 || r.Invalid != 4 || len(r.Examples) != 3 {
		t.Errorf("%v, %d lines, %d invalid: %v", paths, r.Lines, r.Invalid, r.Examples)
	}
	for i, want := range []int64{3, 4, 5} {
		if e := r.Examples[i]; e.Line != want || e.File != "access.log" || e.Why == "" || len(e.Text) > 200 {
			t.Errorf("example %d is %+v, want line %d", i, e, want)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	_, err := logreader.New("messages", strings.NewReader("Nov 28 12:00:00 host kernel: something\n"), "")
	if !errors.Is(err, logreader.ErrFormat) || !strings.Contains(err.Error(), "cloudfront, caddy, json, alb, combined") || !strings.Contains(err.Error(), "messages") {
		t.Errorf("the error is %v", err)
	}
	if _, err := logreader.New("log", strings.NewReader(""), "iis"); !errors.Is(err, logreader.ErrFormat) {
		t.Errorf("the error is %v", err)
	}
}

func TestMerge(t *testing.T) {
	var readers []*logreader.Reader
	for _, log := range []string{
		fmt.Sprintf(line, 3, "c") + fmt.Sprintf(line, 5, "e") + "no entry\n",
		"",
		fmt.Sprintf(line, 1, "a") + fmt.Sprintf(line, 2, "b") + fmt.Sprintf(line, 4, "d"),
	} {
		r, err := logreader.New("log", strings.NewReader(log), "combined")
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	merged, order := logreader.Merge(readers), ""
	for {
		var e logreader.Entry
		if err := merged.Next(&e); err == io.EOF { //nolint:errorlint // as a Reader returns it
			break
		} else if err != nil {
			t.Fatal(err)
		}
		order += e.URI
	}
	if order != "/a/b/c/d/e" {
		t.Errorf("the order is %s", order)
	}
	if lines, invalid, examples := merged.Lines(); lines != 6 || invalid != 1 || len(examples) != 1 {
		t.Errorf("%d lines, %d invalid, examples %v", lines, invalid, examples)
	}
}

// Whatever a log contains, it is read to its end, and entries are within their bounds.
func FuzzReader(f *testing.F) {
	f.Add("combined", fmt.Sprintf(line, 1, "a")+"[\"\\\n")
	f.Add("json", `{"msec":1e300,"status":200,"request":"GET / HTTP/1.1"}`+"\n{\"status\":[]}")
	f.Add("caddy", `{"ts":-1,"request":{"method":"GET","uri":"//"},"status":200}`)
	f.Add("alb", `h2 2018-07-02T22:23:00.186641Z a b c 0 NaN -1 200 200 5 257 "GET https:// HTTP/2.0"`)
	f.Add("cloudfront", "#Fields: date time\n#\n2019-12-04\t21:02:31\n")
	f.Fuzz(func(t *testing.T, format, log string) {
		for _, name := range []string{format, ""} {
			r, err := logreader.New("log", strings.NewReader(log), name)
			if err != nil {
				continue
			}
			for {
				var e logreader.Entry
				if err := r.Next(&e); err != nil {
					break
				}
				if e.Status < 100 || e.Status > 599 || e.Bytes < 0 || e.Took < 0 || e.Took > 24*time.Hour || len(e.URI) > logreader.MaxLine || len(e.Host) > 255 || e.Method == "" || e.Time.Year() > 2200 {
					t.Errorf("the entry %+v is out of bounds", e)
				}
			}
		}
	})
}
