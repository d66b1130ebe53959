package e2e

import (
	"bytes"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/store"
)

// TestPagesOfFaceTheorysRuntime: a page whose status, type and policy are in the metadata of its object is served with
// them, by servers with and without a cache on the local disk, and after a restart; and the commands show them.
func TestPagesOfFaceTheorysRuntime(t *testing.T) {
	t.Parallel()
	const body, kind, policy = `{"error":"no such page"}`, "application/problem+json", "default-src 'none'; frame-ancestors 'self'"
	c, o := newCloud(t), newOrigin(t)
	disk := filepath.Join(t.TempDir(), "cache")
	cached := c.settings(t, "--cache-dir", disk)
	first := serve(t, cached, o)
	// One key is the runtime's own, the other one such as this cache uses for its own bodies.
	for path, key := range map[string]string{
		"/missing": "isr/0123456789abcdef01234567/1-a.html",
		"/gone":    store.BodyPrefix(store.HashedPartition(store.Key{Text: host + "/gone"})) + "theirs",
	} {
		c.putPage(t, path, key, body, map[string]string{
			"facetheory-status": "404", "facetheory-content-type": kind, "facetheory-content-security-policy": policy,
		})
	}
	good := func(r reply) bool {
		return r.status == http.StatusNotFound && r.body == body && r.hit() && r.header.Get("ETag") == `"theirs"` &&
			r.header.Get("Content-Type") == kind && r.header.Get("Content-Security-Policy") == policy
	}
	check := func(g *gateway) {
		t.Helper()
		for _, path := range []string{"/missing", "/gone"} {
			for range 3 { // the first one is read from the bucket
				expectAll(t, path, []reply{get(t, g.url+path), get(t, g.url+path, "If-None-Match", `"theirs"`), get(t, g.url+path, "Range", "bytes=0-3")}, good)
			}
			if r := visit(t.Context(), http.DefaultClient, http.MethodHead, g.url+path); r.status != http.StatusNotFound || r.body != "" || r.header.Get("Content-Security-Policy") != policy {
				t.Errorf("HEAD %s: %s", path, r)
			}
		}
	}
	check(first)
	if p := cached.get(t, host+"/missing"); p.Status != http.StatusNotFound || p.BodyProblem != "" || p.BodyBytes != int64(len(body)) {
		t.Errorf("isr get says: %+v", p)
	}
	local := settings{dir: cached.dir, env: cached.env} // asks the server of the folder
	if text := string(local.output(t, "explain", "http://"+host+"/missing")); !strings.Contains(text, "404") {
		t.Errorf("isr explain says: %s", text)
	}
	first.terminate(t)
	first.awaitExit(t, patience)
	check(serve(t, cached, o))        // which has what the first one kept
	check(serve(t, c.settings(t), o)) // without a local disk
	check(serve(t, c.settings(t, "--memory", "1MiB"), o))
	if n := o.count("/missing") + o.count("/gone"); n != 0 {
		t.Errorf("the origin was asked %d times", n)
	}
	_ = filepath.WalkDir(disk, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "lock" {
			t.Errorf("the local disk has %s", path)
		}
		return nil
	})
}

// putPage writes a page as a service does that knows the reference attributes only.
func (c *cloud) putPage(t *testing.T, path, key, body string, metadata map[string]string) {
	t.Helper()
	bucket := s3.New(s3.Options{BaseEndpoint: &c.s3, UsePathStyle: true, Region: region, Credentials: c.credentials()})
	if _, err := bucket.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &c.bucket, Key: &key, Body: bytes.NewReader([]byte(body)), Metadata: metadata}); err != nil {
		t.Fatal(err)
	}
	table := dynamodb.New(dynamodb.Options{BaseEndpoint: &c.dynamodb, Region: region, Credentials: c.credentials()})
	if _, err := table.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.table, Item: map[string]types.AttributeValue{
		"pk":                 &types.AttributeValueMemberS{Value: store.HashedPartition(store.Key{Text: host + path})},
		"sk":                 &types.AttributeValueMemberS{Value: "META"},
		"s3_key":             &types.AttributeValueMemberS{Value: key},
		"generated_at":       &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Unix(), 10)},
		"revalidate_seconds": &types.AttributeValueMemberN{Value: "3600"},
		"etag":               &types.AttributeValueMemberS{Value: `"theirs"`},
	}}); err != nil {
		t.Fatal(err)
	}
}
