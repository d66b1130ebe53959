package store

import (
	"encoding/json"
	"os"
	"testing"
)

// TestBodyPrefixes holds BodyPrefix to spec/vectors/partition-keys.json; what else is
// in it, package spec_test checks.
func TestBodyPrefixes(t *testing.T) {
	text, err := os.ReadFile("../spec/vectors/partition-keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var presets map[string][]struct {
		Name       string `json:"name"`
		PK         string `json:"pk"`
		BodyPrefix string `json:"body_prefix"`
	}
	if err := json.Unmarshal(text, &presets); err != nil {
		t.Fatal(err)
	}
	for preset, vectors := range presets {
		if len(vectors) == 0 {
			t.Errorf("%s: no vectors", preset)
		}
		for _, v := range vectors {
			if got := BodyPrefix(v.PK); got != v.BodyPrefix {
				t.Errorf("%s, %s: %s, expected %s", preset, v.Name, got, v.BodyPrefix)
			}
		}
	}
}
