package trigger_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/facetheory/isr/trigger"
)

// recorded reads an event from testdata.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func templates(t *testing.T, texts ...string) (all []trigger.Template) {
	t.Helper()
	for _, text := range texts {
		template, err := trigger.ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, template)
	}
	return all
}

// inSNS wraps an event as SNS does without raw message delivery.
func inSNS(t *testing.T, event string) string {
	t.Helper()
	text, err := json.Marshal(map[string]string{
		"Type": "Notification", "MessageId": "sns-1", "TopicArn": "arn:aws:sns:eu-west-1:123456789012:purges", "Message": event,
		"Timestamp": "2026-11-22T12:00:00.000Z", "SignatureVersion": "1", "Signature": "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEvents(t *testing.T) {
	request := `{"targets": [{"tag": "product-7"}, {"url": "https://example.com/a"}, {"prefix": "example.com/b/"}, {"host": "example.com"}], "tenant": "acme", "mode": "hard"}`
	for name, test := range map[string]struct {
		text      string
		templates []string
		want      string
	}{
		"purge request":        {request, nil, "true  [tag product-7 of tenant acme key example.com/a of tenant acme prefix example.com/b/ of tenant acme prefix example.com/ of tenant acme]"},
		"tenant, all":          {`{"targets": [{"tenant": "acme"}, {"all": true}], "mode": "soft"}`, nil, "false  [tenant of tenant acme site]"},
		"purge request in SNS": {inSNS(t, `{"targets": [{"all": true}]}`), nil, "false sns-1 [site]"},
		"S3":                   {string(recorded(t, "s3-put.json")), []string{"url:https://example.com/{payload.s3.object.key}"}, "false  [key example.com/images/red%20shoes+1.jpg key example.com/images/b.jpg]"},
		"S3 in SNS":            {inSNS(t, string(recorded(t, "s3-put.json"))), []string{"tag:{payload.s3.bucket.name}"}, "false sns-1 [tag site-assets]"},
		"S3 test":              {`{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-11-22T12:00:00.000Z","Bucket":"site-assets","RequestId":"1","HostId":"2"}`, nil, "false  []"},
		"EventBridge":          {string(recorded(t, "eventbridge-s3.json")), []string{"tag:{payload.detail.object.key}"}, "false 17793124-05d4-b198-2fde-7ededc63b103 [tag images/red shoes+1.jpg]"},
		"other JSON":           {`{"sku": "S1", "targets": 4}`, []string{"tag:{payload.sku}"}, "false  [tag S1]"},
	} {
		m, err := trigger.ParseEvent([]byte(test.text), templates(t, test.templates...))
		if got := fmt.Sprint(m.Hard, " ", m.ID, " ", m.Targets); err != nil || got != test.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, test.want)
		}
	}
}

func TestEventsThatAreRefused(t *testing.T) {
	var manyTags string
	for i := range 98 {
		manyTags += fmt.Sprintf(`{"tag": "t%d"},`, i)
	}
	many := `{"targets": [` + manyTags + `{"tag": "a"}]}`
	for name, test := range map[string]struct {
		text      string
		templates []string
		want      string
	}{
		"not JSON":           {"purge!", nil, "not JSON"},
		"too large":          {strings.Repeat(" ", 1<<20+1), nil, "1048577 bytes; at most 1048576"},
		"deep":               {strings.Repeat(`{"a":`, 200_000), nil, "max depth"},
		"no targets":         {`{"targets": []}`, nil, ""},
		"99 targets":         {many, nil, "99 targets"},
		"two in one":         {`{"targets": [{"tag": "a", "all": true}]}`, nil, "targets[0]: invalid input: expected exactly one of url, tag, prefix, host, tenant and all (found 2)"},
		"none in one":        {`{"targets": [{}]}`, nil, "(found 0)"},
		"unknown field":      {`{"targets": [{"all": true}], "dry_run": true}`, nil, `unknown field "dry_run"`},
		"mode":               {`{"targets": [{"all": true}], "mode": "refresh"}`, nil, `soft or hard (got "refresh")`},
		"tenant of a tenant": {`{"targets": [{"tenant": "a"}], "tenant": "b"}`, nil, "the target is the tenant a, and the purge is of the tenant b"},
		"all of a tenant":    {`{"targets": [{"all": true}], "tenant": "b"}`, nil, "all is all tenants"},
		"no templates":       {string(recorded(t, "eventbridge-s3.json")), nil, "other events need templates"},
		"array":              {`[1]`, nil, "other events need templates"},
		"SNS in SNS":         {inSNS(t, inSNS(t, `{"targets": [{"all": true}]}`)), nil, "other events need templates"},
		"missing path":       {string(recorded(t, "s3-put.json")), []string{"tag:{payload.detail.id}"}, "record 1: target \"tag:{payload.detail.id}\""},
	} {
		m, err := trigger.ParseEvent([]byte(test.text), templates(t, test.templates...))
		if name == "no targets" {
			if err != nil || len(m.Targets) != 0 {
				t.Errorf("%s: got %v, %v, want a message that asks for nothing", name, m, err)
			}
			continue
		}
		if err == nil || !trigger.Permanent(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want a permanent error with %q", name, err, test.want)
		}
	}
}
