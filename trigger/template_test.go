package trigger_test

import (
	"strings"
	"testing"

	"github.com/facetheory/isr/trigger"
)

func TestTemplatesThatCannotBeParsed(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "must begin with one of url, tag, prefix, host, tenant, all",
		"product":                         "must begin with one of",
		"page:x":                          "must begin with one of",
		"tag":                             "needs a value",
		"tag:":                            "needs a value",
		"tag@:x":                          "tag@TENANT:VALUE",
		"tenant@a:b":                      "tag@TENANT:VALUE",
		"all:x":                           "all takes no value",
		"all@a":                           "all takes no value",
		"tag:{payload.id":                 "is not closed",
		"tag:payload.id}":                 "closing brace",
		"tag:{}":                          "{} is not a path into the payload; expected one such as {payload.id}",
		"tag:{id}":                        "{id} is not a path",
		"tag:{payload}":                   "{payload} is not a path",
		"tag:{payload..id}":               "{payload..id} has an empty name",
		"tag:{/}":                         "{/} has an empty name",
		"tag:{env.SECRET}":                "{env.SECRET} is not a path",
		"tag:{payload.a.*}-{payload.b.*}": "has 2 wildcards (*); expected at most one",
		strings.Repeat("tag:x", 1000):     "5000 bytes; at most 4096",
	} {
		_, err := trigger.ParseTemplate(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want an error with %q", text, err, want)
		}
	}
}
