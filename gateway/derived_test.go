package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/facetheory/isr"
)

func TestDeviceOf(t *testing.T) {
	const (
		iphone    = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1"
		ipad      = "Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Mobile/15E148 Safari/604.1"
		android   = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36"
		slate     = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
		windows   = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
		tabletPC  = "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0; Tablet PC 2.0)"
		cubot     = "Mozilla/5.0 (Linux; Android 9; CUBOT_X19) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/90.0.4430.91 Mobile Safari/537.36"
		googlebot = "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
		bingbot   = "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"
	)
	for agent, want := range map[string][2]string{ // without and with a class of bots
		"": {deviceDesktop, deviceDesktop}, "curl/8": {deviceDesktop, deviceDesktop},
		iphone: {devicePhone, devicePhone}, android: {devicePhone, devicePhone}, cubot: {devicePhone, devicePhone},
		ipad: {deviceTablet, deviceTablet}, slate: {deviceTablet, deviceTablet},
		windows: {deviceDesktop, deviceDesktop}, tabletPC: {deviceDesktop, deviceDesktop},
		googlebot: {devicePhone, deviceBot}, bingbot: {deviceDesktop, deviceBot}, "ABot": {deviceDesktop, deviceBot},
		"Robotics/1": {deviceDesktop, deviceDesktop}, strings.Repeat("a", maxUserAgent) + "iphone": {deviceDesktop, deviceDesktop},
	} {
		for i, bots := range []bool{false, true} {
			if got := deviceOf([]string{agent}, bots); got != want[i] {
				t.Errorf("%.80q, with bots %v: %s, want %s", agent, bots, got, want[i])
			}
		}
	}
	if got := deviceOf([]string{iphone, iphone}, false); got != deviceDesktop {
		t.Errorf("two fields: %s", got)
	}
	lines := []string{googlebot}
	if n := testing.AllocsPerRun(100, func() { deviceOf(lines, true) }); n > 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// Whatever visitors send, the render, the key and a request that passes through have one of the declared values, and only a
// trusted peer states a country.
func TestDerivedHeaders(t *testing.T) {
	d := derivedOf(SiteRoute{Device: true, Country: true, Route: isr.Route{KeyClasses: []isr.KeyClass{
		{Header: DeviceHeader, Values: []string{deviceDesktop, devicePhone}},
		{Header: CountryHeader, Values: []string{"other", "DE", "AT"}},
	}}}, "cf-ipcountry")
	trusted := context.WithValue(t.Context(), hopKey{}, &hop{client: netip.MustParseAddr("192.0.2.1")})
	for _, c := range []struct {
		name, header    string
		trusted         bool
		device, country string
	}{
		{"nothing", "", false, "desktop", "other"},
		{"forged classes", "X-Device-Class: phone\nX-Country: DE", true, "desktop", "other"},
		{"a forged country", "Cf-Ipcountry: DE", false, "desktop", "other"},
		{"a country of a proxy", "Cf-Ipcountry: DE\nUser-Agent: iPhone", true, "phone", "DE"},
		{"another country", "Cf-Ipcountry: FR\nUser-Agent: iPad", true, "desktop", "other"},
		{"no country", "Cf-Ipcountry: XX", true, "desktop", "other"},
		{"two countries", "Cf-Ipcountry: DE\nCf-Ipcountry: AT", true, "desktop", "other"},
		{"a long one", "Cf-Ipcountry: " + strings.Repeat("DE", 1000), true, "desktop", "other"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		if c.trusted {
			r = r.WithContext(trusted)
		}
		for line := range strings.SplitSeq(c.header, "\n") {
			if name, value, found := strings.Cut(line, ": "); found {
				r.Header.Add(name, value)
			}
		}
		d.set(r)
		if got := r.Header[DeviceHeader]; len(got) != 1 || got[0] != c.device {
			t.Errorf("%s: device %q", c.name, got)
		}
		if got := r.Header[CountryHeader]; len(got) != 1 || got[0] != c.country {
			t.Errorf("%s: country %q", c.name, got)
		}
		if n := testing.AllocsPerRun(100, func() { d.set(r) }); n > 0 {
			t.Errorf("%s: it allocates %v times", c.name, n)
		}
	}
	var none derived
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set(DeviceHeader, "of a visitor")
	if none.set(r); r.Header.Get(DeviceHeader) != "of a visitor" || r.Header[CountryHeader] != nil {
		t.Errorf("a route without classes has %v", r.Header)
	}
}
