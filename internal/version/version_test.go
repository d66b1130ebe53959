package version_test

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/version"
)

func TestOf(t *testing.T) {
	const revision = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
	at := time.Date(2026, 11, 24, 6, 9, 47, 0, time.UTC)
	checkout := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs.revision", Value: revision}, {Key: "vcs.time", Value: "2026-11-24T06:09:47Z"}, {Key: "vcs.modified", Value: modified},
		}
	}
	n := version.Number
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want version.Build
	}{
		"no build information": {nil, version.Build{Version: n}},
		"a source archive":     {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, version.Build{Version: n}},
		"go install, tag":      {&debug.BuildInfo{Main: debug.Module{Version: "v" + n}}, version.Build{Version: n}},
		"go install, commit": {
			&debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261124060947-1a2b3c4d5e6f"}},
			version.Build{Version: n + "+1a2b3c4d5e6f", Revision: "1a2b3c4d5e6f"},
		},
		"checkout of the tag": {
			&debug.BuildInfo{Main: debug.Module{Version: "v" + n}, Settings: checkout("false")},
			version.Build{Version: n, Revision: revision, Time: at},
		},
		"checkout": {
			&debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261124060947-1a2b3c4d5e6f"}, Settings: checkout("false")},
			version.Build{Version: n + "+1a2b3c4d5e6f", Revision: revision, Time: at},
		},
		"checkout with changes": {
			&debug.BuildInfo{Main: debug.Module{Version: "v" + n + "+dirty"}, Settings: checkout("true")},
			version.Build{Version: n + "+1a2b3c4d5e6f.modified", Revision: revision, Time: at, Modified: true},
		},
	} {
		if got := version.Of(test.info); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
