package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// maxSkew is the maximum difference between the date of a signature and the clock.
const maxSkew = 15 * time.Minute

// signatureTime is the format of X-Amz-Date.
const signatureTime = "20060102T150405Z"

// authorization is a well-formed Authorization header of Signature Version 4.
type authorization struct {
	accessKey, date, region, service, terminator string
	signedHeaders                                string // header names separated by semicolons
	signature                                    string
	signed                                       string // X-Amz-Date or Date
}

// parseAuthorization parses the header, with AWS's order of checks and messages.
func parseAuthorization(header http.Header) (authorization, error) {
	given := header.Get("Authorization")
	if !strings.HasPrefix(given, "AWS4-") {
		return authorization{}, clientFault("MissingAuthenticationTokenException", "Request is missing Authentication Token")
	}
	algorithm, rest, _ := strings.Cut(given, " ")
	var a authorization
	credential := ""
	for part := range strings.SplitSeq(rest, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "Credential":
			credential = value
		case "Signature":
			a.signature = value
		case "SignedHeaders":
			a.signedHeaders = value
		}
	}
	if a.signed = header.Get("X-Amz-Date"); a.signed == "" {
		a.signed = header.Get("Date")
	}
	if err := a.checkParts(given, credential); err != nil {
		return authorization{}, err
	}
	if algorithm != "AWS4-HMAC-SHA256" {
		return authorization{}, clientFault("IncompleteSignatureException", "Unsupported AWS 'algorithm': '%.64s' (only AWS4-HMAC-SHA256 for now). ", algorithm)
	}
	return a, a.scope(credential)
}

// checkParts returns an error that lists the missing parts of the header.
func (a *authorization) checkParts(given, credential string) error {
	missing := ""
	for _, part := range []struct{ name, value string }{
		{"Credential", credential}, {"Signature", a.signature}, {"SignedHeaders", a.signedHeaders},
	} {
		if part.value == "" {
			missing += "Authorization header requires '" + part.name + "' parameter. "
		}
	}
	if a.signed == "" {
		missing += "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
	}
	if missing == "" {
		return nil
	}
	return clientFault("IncompleteSignatureException", "%sAuthorization=%s", missing, given)
}

// scope splits the credential. The access key itself may contain slashes.
func (a *authorization) scope(credential string) error {
	key, parts := credential, [4]string{}
	for i := len(parts) - 1; i >= 0; i-- {
		slash := strings.LastIndexByte(key, '/')
		if slash < 0 {
			return clientFault("IncompleteSignatureException", "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '%.200s'", credential)
		}
		key, parts[i] = key[:slash], key[slash+1:]
	}
	a.accessKey, a.date, a.region, a.service, a.terminator = key, parts[0], parts[1], parts[2], parts[3]
	return nil
}

// verifier verifies signatures with one pair of keys. A nil verifier accepts all.
type verifier struct {
	credentials aws.Credentials
	now         func() time.Time
	signer      *v4.Signer // caches derived keys
}

func newVerifier(config Config) *verifier {
	v := &verifier{
		credentials: aws.Credentials{AccessKeyID: config.AccessKey, SecretAccessKey: config.SecretKey},
		now:         config.Now,
		signer:      v4.NewSigner(),
	}
	if v.now == nil {
		v.now = time.Now
	}
	return v
}

// admit checks what it can before the body arrives: the date, scope and access key, and
// that X-Amz-Target, which selects the operation, is signed.
func (v *verifier) admit(a authorization) error {
	if v == nil {
		return nil
	}
	signed, err := time.Parse(signatureTime, a.signed)
	if err != nil {
		return clientFault("IncompleteSignatureException", "Date must be in ISO-8601 'basic format'. Got '%.64s'. See http://en.wikipedia.org/wiki/ISO_8601", a.signed)
	}
	if err := v.checkScope(a, signed); err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(a.accessKey), []byte(v.credentials.AccessKeyID)) != 1 {
		return clientFault("UnrecognizedClientException", "The security token included in the request is invalid.")
	}
	if !strings.Contains(";"+strings.ToLower(a.signedHeaders)+";", ";x-amz-target;") {
		return clientFault("InvalidSignatureException", "'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization.")
	}
	return nil
}

// verify recomputes the signature of an admitted request and compares. body is the body
// as sent, before decompression.
func (v *verifier) verify(r *http.Request, a authorization, body []byte) error {
	if v == nil {
		return nil
	}
	signed, err := time.Parse(signatureTime, a.signed)
	if err != nil {
		return fmt.Errorf("wire: verify signature: %w", err) // cannot happen: admit parsed it
	}
	resigned, err := signedOnly(r, a)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(body)
	if err := v.signer.SignHTTP(r.Context(), v.credentials, resigned, hex.EncodeToString(hash[:]), a.service, a.region, signed); err != nil {
		return fmt.Errorf("wire: verify signature: %w", err)
	}
	// Equal signatures imply that the other parts of the header are equal too.
	_, want, _ := strings.Cut(resigned.Header.Get("Authorization"), "Signature=")
	if subtle.ConstantTimeCompare([]byte(want), []byte(a.signature)) != 1 {
		return clientFault("InvalidSignatureException", "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	return nil
}

// checkScope checks the date of the signature and the scope of the credential.
func (v *verifier) checkScope(a authorization, signed time.Time) error {
	now := v.now().UTC()
	switch early, late := now.Add(-maxSkew), now.Add(maxSkew); {
	case signed.Before(early):
		return clientFault("InvalidSignatureException", "Signature expired: %s is now earlier than %s (%s - 15 min.)",
			a.signed, early.Format(signatureTime), now.Format(signatureTime))
	case signed.After(late):
		return clientFault("InvalidSignatureException", "Signature not yet current: %s is still later than %s (%s + 15 min.)",
			a.signed, late.Format(signatureTime), now.Format(signatureTime))
	case a.service != "dynamodb":
		return clientFault("InvalidSignatureException", "Credential should be scoped to correct service: 'dynamodb'. ")
	case a.terminator != "aws4_request":
		return clientFault("InvalidSignatureException", "Credential should be scoped with a valid terminator: 'aws4_request', not '%.64s'. ", a.terminator)
	case a.date != a.signed[:8]:
		return clientFault("InvalidSignatureException", "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%.64s' != '%s', from '%s'.",
			a.date, a.signed[:8], a.signed)
	}
	return nil
}

// signedOnly returns a copy of the request with only the signed headers. The signer adds
// host, X-Amz-Date and a content length above zero, so these must be signed. It ignores
// user-agent, transfer-encoding and x-amzn-trace-id, which no SDK signs.
func signedOnly(r *http.Request, a authorization) (*http.Request, error) {
	part := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, Header: make(http.Header)}
	names := ";" + strings.ToLower(a.signedHeaders) + ";"
	if !strings.Contains(names, ";host;") {
		return nil, clientFault("InvalidSignatureException", "'Host' must be a 'SignedHeader' in the AWS Authorization.")
	}
	for name := range strings.SplitSeq(strings.Trim(names, ";"), ";") {
		switch name {
		case "host":
		case "content-length":
			part.ContentLength = r.ContentLength
		default:
			name = http.CanonicalHeaderKey(name)
			part.Header[name] = append([]string(nil), r.Header[name]...)
		}
	}
	target := *r.URL
	part.URL = &target // the signer modifies it
	return part, nil
}
