package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// webhook sends a generic webhook and prints the status and the response: webhook URL SECRET
// DELIVERY BODY.
func webhook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: webhook URL SECRET DELIVERY BODY")
	}
	r, err := http.NewRequest(http.MethodPost, args[0], strings.NewReader(args[3]))
	ts.Check(err)
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(args[1]))
	mac.Write([]byte(at + "." + args[3]))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-ISR-Timestamp", at)
	r.Header.Set("X-ISR-Delivery", args[2])
	r.Header.Set("X-ISR-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	response, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	ts.Check(err)
	_, err = fmt.Fprintf(ts.Stdout(), "%d\n%s", response.StatusCode, text)
	ts.Check(err)
}
