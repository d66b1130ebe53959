package process

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	stat := "1234 (a (b) c) S 77 1234 1234 0 -1 4194304 100 0 0 0 150 50 7 3 20 0 4 0 100 1000 200 18446744073709551615"
	parent, cpu, err := parseStat(stat)
	if err != nil || parent != 77 || cpu != 2100*time.Millisecond {
		t.Errorf("parent %d, CPU %v, error %v, want 77 and 2.1s", parent, cpu, err)
	}
	for _, bad := range []string{"", "1 (x) S 1", "1 (x) S y 1 1 0 -1 1 1 0 0 0 1 1 1 1 1"} {
		if _, _, err := parseStat(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParseMachine(t *testing.T) {
	busy, err := parseMachine("cpu  100 20 30 1000 500 4 5 6 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	if err != nil || busy != 1560*time.Millisecond {
		t.Errorf("%v, error %v, want 1.56s", busy, err)
	}
	if _, err := parseMachine("intr 1 2 3\n"); err == nil {
		t.Error("no error for another file")
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	u, err := UsageOf(os.Getpid())
	if err != nil || u.Resident < 1<<20 || u.Anonymous <= 0 || u.Anonymous > u.Resident {
		t.Errorf("%+v, error %v", u, err)
	}
}
