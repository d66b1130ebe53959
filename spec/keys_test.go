package spec_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/facetheory/isr/store"
)

type partitionVector struct {
	Name       string `json:"name"`
	Tenant     string `json:"tenant,omitempty"`
	Key        string `json:"key"`
	PK         string `json:"pk"`
	BodyPrefix string `json:"body_prefix"`
}

func TestPartitionKeys(t *testing.T) {
	type file struct {
		Hashed []partitionVector `json:"hashed"`
		Raw    []partitionVector `json:"raw"`
	}
	run(t, "partition-keys.json", func(f *file) {
		derive(t, f.Hashed, store.HashedPartition)
		derive(t, f.Raw, store.RawPartition)
	})
}

func derive(t *testing.T, vectors []partitionVector, partition store.Partition) {
	t.Helper()
	for i := range vectors {
		v := &vectors[i]
		k := store.Key{Tenant: v.Tenant, Text: v.Key}
		if err := store.ValidKey(k); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		v.PK = partition(k)
		// TestBodyPrefixes of package isr checks that the cache uses this prefix.
		sum := sha256.Sum256([]byte(v.PK))
		v.BodyPrefix = "bodies/" + hex.EncodeToString(sum[:]) + "/"
		newTable(t, 1).put(item{"pk": text(v.PK), "sk": text("META")}) // DynamoDB accepts the key
	}
}

func TestCacheKeys(t *testing.T) {
	type accepted struct {
		Name string `json:"name"`
		Text string `json:"text"`
		Key  string `json:"key"`
	}
	type refused struct {
		Name  string `json:"name"`
		Text  string `json:"text"`
		Error string `json:"error"`
	}
	type file struct {
		Accepted []accepted `json:"accepted"`
		Refused  []refused  `json:"refused"`
	}
	run(t, "cache-keys.json", func(f *file) {
		for i := range f.Accepted {
			v := &f.Accepted[i]
			k, err := store.ParseKey("", v.Text)
			if err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
			v.Key = k.Text
			if again, err := store.ParseKey("", k.Text); err != nil || again != k {
				t.Errorf("%s: parsing the key %q again: got %q, %v", v.Name, k.Text, again.Text, err)
			}
		}
		for i := range f.Refused {
			v := &f.Refused[i]
			k, err := store.ParseKey("", v.Text)
			if v.Error = nameOf(t, err); err == nil {
				t.Errorf("%s: accepted as %q", v.Name, k.Text)
			}
		}
	})
}
