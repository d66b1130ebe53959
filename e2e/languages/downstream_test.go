package languages

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/isrtest"
)

// A varnish is a server that accepts the purges of a Varnish server.
type varnish struct {
	*httptest.Server

	mu       sync.Mutex
	received []string // pages and tags; guarded by mu
}

func newVarnish(t *testing.T) *varnish {
	t.Helper()
	v := &varnish{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		defer v.mu.Unlock()
		hard, soft := strings.Fields(r.Header.Get("xkey-purge")), strings.Fields(r.Header.Get("xkey-softpurge"))
		switch {
		case r.Method != "PURGE":
			v.received = append(v.received, r.Method+" "+r.Header.Get("X-Ban-Url"))
		case len(hard)+len(soft) == 0:
			v.received = append(v.received, "page "+r.Host+r.URL.Path)
		}
		for _, tag := range hard {
			v.received = append(v.received, "hard "+tag)
		}
		for _, tag := range soft {
			v.received = append(v.received, "soft "+tag)
		}
		w.Header().Set("X-Purged", "1")
	}))
	t.Cleanup(v.Close)
	return v
}

// purged returns what was purged, sorted.
func (v *varnish) purged() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(slices.Values(v.received))
}

// outbox returns the number of rows of the outbox.
func (c *crew) outbox(t *testing.T) int {
	t.Helper()
	found, err := c.api.Query(t.Context(), &dynamodb.QueryInput{
		TableName: &c.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression: aws.String("pk = :pk"), ExpressionAttributeValues: row{":pk": text("OUTBOX")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(found.Items)
}

// deliveries has every language purge pages and tags, and Next.js revalidate one: isr serve
// delivers each to the cache in front, of which the clients know nothing, once.
func deliveries(t *testing.T, c *crew) {
	cdn := newVarnish(t)
	s := c.serve(t, "--downstream", "cdn=varnish:"+cdn.URL)
	await(t, "isr serve to follow the log for the cache", func() bool { return c.get(t, "OUTBOX", "CURSOR#cdn") != nil })
	var want []string
	for _, w := range c.workers {
		key, soft, hard := host+"/"+w.language, "soft-"+w.language, "hard-"+w.language
		w.does(t, command{Do: "purge", Targets: []target{{Kind: "key", Value: key}, {Kind: "tag", Value: hard}}, Hard: true})
		w.does(t, command{Do: "purge", Targets: []target{{Kind: "tag", Value: soft}}})
		want = append(want, "page "+key, "hard "+hard, "soft "+soft)
	}
	next := c.workers[slices.IndexFunc(c.workers, func(w *worker) bool { return w.language == "typescript" })]
	next.does(t, command{Do: "next_open", Bucket: s.bucket, S3: isrtest.Engine(t, "ISR_TEST_S3", "S3 server")})
	next.does(t, command{Do: "revalidate", Tags: []string{"next-tag"}})
	want = append(want, "hard next-tag")
	slices.Sort(want)
	await(t, "the deliveries", func() bool { return len(cdn.purged()) >= len(want) })
	await(t, "an empty outbox", func() bool { return c.outbox(t) == 1 /* the cursor */ })
	if diff := diffOf(want, cdn.purged()); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
}
