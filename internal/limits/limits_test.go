package limits

import (
	"io/fs"
	"testing"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	const meminfo = "MemTotal:       16000000 kB\nMemFree:         1 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no files":         {nil, 0},
		"a machine":        {map[string]string{"/proc/meminfo": meminfo}, 16000000 << 10},
		"version 2":        {map[string]string{"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "1000000\n"}, 1000000},
		"a container":      {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "5\n"}, 5},
		"version 1":        {map[string]string{"/proc/self/cgroup": "3:cpu:/x\n2:memory:/x\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "7\n"}, 7},
		"malformed":        {map[string]string{"/proc/meminfo": "MemTotal: many kB\n", "/proc/self/cgroup": "::\nx\n0\n"}, 0},
		"no limit, 2^63-1": {map[string]string{"/proc/meminfo": meminfo, "/proc/self/cgroup": "2:memory:/\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16000000 << 10},
	} {
		read := func(name string) ([]byte, error) {
			if text, ok := test.files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}
		if got := memory(read); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	if l := Of(); l.Files < 3 || l.OpenFiles > l.Files {
		t.Errorf("%+v", l)
	}
}
