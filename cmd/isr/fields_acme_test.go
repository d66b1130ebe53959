package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
)

// hmacOfAccount is the key of the external account at an authority, in base64url.
const hmacOfAccount = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"

// An authority notes what an ACME client asks for, and issues nothing: the tests of package
// e2e obtain certificates of Pebble.
type authority struct {
	url      string
	mu       sync.Mutex
	requests map[string]signed // guarded by mu; by their paths, of which the last one
}

// A signed is a JSON Web Signature.
type signed struct{ Protected, Payload, Signature string }

// decode decodes the payload of a signature.
func (j signed) decode(s *fieldServer, into any) {
	s.Helper()
	text, err := base64.RawURLEncoding.DecodeString(j.Payload)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		s.Errorf("the payload %q: %v", text, err)
	}
}

// start serves the authority at AUTHORITY, with the roots in DIR/ca.
func (a *authority) start(s *fieldServer) {
	a.requests = make(map[string]signed)
	server := httptest.NewTLSServer(a)
	s.Cleanup(server.Close)
	a.url = server.URL
	s.replace("AUTHORITY", server.URL)
	s.write("ca", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	s.write("hmac", hmacOfAccount)
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var got signed
	_ = json.NewDecoder(r.Body).Decode(&got) // of POST
	a.requests[r.URL.Path] = got
	w.Header().Set("Replay-Nonce", fmt.Sprintf("nonce%022d", len(a.requests)))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", a.url+"/made"+r.URL.Path)
	text := ""
	switch r.URL.Path {
	case "/directory":
		text = `{"newNonce": "A/nonce", "newAccount": "A/account", "newOrder": "A/order", "meta": {"termsOfService": "A/terms"}}`
	case "/account":
		w.WriteHeader(http.StatusCreated)
		text = `{"status": "valid"}`
	case "/order":
		w.WriteHeader(http.StatusCreated)
		text = `{"status": "pending", "identifiers": [{"type": "dns", "value": "a.test"}], "authorizations": ["A/authorization"], "finalize": "A/finalize"}`
	case "/authorization":
		text = `{"status": "pending", "identifier": {"type": "dns", "value": "a.test"}, "challenges": [
			{"type": "http-01", "url": "A/http", "token": "t1", "status": "pending"}, {"type": "tls-alpn-01", "url": "A/tls-alpn", "token": "t2", "status": "pending"}]}`
	case "/http", "/tls-alpn":
		text = `{"type": "http-01", "url": "A/http", "token": "t1", "status": "pending"}`
	}
	fmt.Fprint(w, strings.ReplaceAll(text, "A/", a.url+"/"))
}

// await waits for a request, and returns it.
func (a *authority) await(s *fieldServer, path string) (got signed) {
	s.Helper()
	s.until("the authority is asked for "+path, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		found := false
		got, found = a.requests[path]
		return found
	})
	return got
}

// acmeFields are tests of what a server asks of a certificate authority.
func acmeFields() []fieldTest {
	const file = "hosts: [a.test]\nlisten: [{address: 127.0.0.1:0, acme: true}, {address: 127.0.0.1:0}]\nacme: {email: ops@example.com, agree: true, directory: 'AUTHORITY/directory', ca_file: DIR/ca"
	test := func(fields, settings string, show func(*fieldServer, *authority)) fieldTest {
		a := &authority{}
		return fieldTest{fields: fields, file: file + settings + "}", prepare: a.start, show: func(s *fieldServer) { show(s, a) }}
	}
	return []fieldTest{
		test("listen[].acme acme.email acme.agree acme.directory acme.ca_file", "", func(s *fieldServer, a *authority) {
			var account struct {
				Contact              []string
				TermsOfServiceAgreed bool
			}
			a.await(s, "/account").decode(s, &account)
			if len(account.Contact) != 1 || account.Contact[0] != "mailto:ops@example.com" || !account.TermsOfServiceAgreed {
				s.Errorf("the account is %+v", account)
			}
		}),
		test("acme.storage", ", storage: DIR/certificates", func(s *fieldServer, _ *authority) {
			if info, err := os.Stat(s.dir + "/certificates"); err != nil || info.Mode().Perm() != 0o700 {
				s.Errorf("%v, %v", info, err)
			}
		}),
		test("acme.challenges", ", challenges: [http]", func(s *fieldServer, a *authority) {
			a.await(s, "/http") // by default tls-alpn, unless a listener has port 80
		}),
		test("acme.external_account.key_id acme.external_account.hmac_key", ", external_account: {key_id: kid-1, hmac_key: {file: DIR/hmac}}", func(s *fieldServer, a *authority) {
			var account struct{ ExternalAccountBinding signed }
			a.await(s, "/account").decode(s, &account)
			binding := account.ExternalAccountBinding
			header, _ := base64.RawURLEncoding.DecodeString(binding.Protected)
			s.contains(string(header), `"kid":"kid-1"`)
			key, err := base64.RawURLEncoding.DecodeString(hmacOfAccount)
			if err != nil {
				s.Fatal(err)
			}
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(binding.Protected + "." + binding.Payload))
			if want := base64.RawURLEncoding.EncodeToString(mac.Sum(nil)); binding.Signature != want {
				s.Errorf("the signature is %q, not %q", binding.Signature, want)
			}
		}),
	}
}
