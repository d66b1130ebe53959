package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/facetheory/isr/cmd/isr/cli"
)

// A site whose name points elsewhere is reached at the address: its certificate and its Host are those of the name.
func TestAddresses(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	var asked string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.TLS.ServerName + " " + r.Host }))
	defer server.Close()
	address, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	all, err := cli.ParseAddresses([]string{"Example.com:" + port + ":" + address, "example.com:443:[2001:db8::1]"})
	if err != nil {
		t.Fatal(err)
	}
	transport := all.Transport()
	transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	transport.TLSClientConfig.RootCAs.AddCert(server.Certificate()) // which is of example.com
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	res, err := client.Get("https://example.com:" + port + "/") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if asked != "example.com example.com:"+port {
		t.Errorf("asked for %s", asked)
	}
}

func TestInvalidAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"example.com":                    "is not HOST:PORT:ADDRESS",
		"example.com:443":                "is not HOST:PORT:ADDRESS",
		":443:127.0.0.1":                 "is not HOST:PORT:ADDRESS",
		"example.com:https:127.0.0.1":    "is not HOST:PORT:ADDRESS",
		"example.com:70000:127.0.0.1":    "is not HOST:PORT:ADDRESS",
		"example.com:0:127.0.0.1":        "is not HOST:PORT:ADDRESS",
		"example.com:443:other.example":  "has no IP address",
		"example.com:443:127.0.0.1:8443": "has no IP address",
	} {
		if _, err := cli.ParseAddresses([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := cli.ParseAddresses([]string{"a:443:127.0.0.1", "A:443:127.0.0.2"}); err == nil {
		t.Error("a host has two addresses")
	}
}
