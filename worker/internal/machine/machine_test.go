package machine

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree writes files below a folder of the test's own.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCgroups(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		files map[string]string
		want  Limits
	}{
		{"none", nil, Limits{}},
		{"unlimited", map[string]string{"self": "0::/a", "a/cpu.max": "max 100000", "a/memory.max": "max"}, Limits{}},
		{"the task's, one level up", map[string]string{
			"self": "0::/ecs/task/container", "ecs/task/cpu.max": "200000 100000", "ecs/task/container/cpu.max": "max 100000",
			"ecs/task/memory.max": "4294967296", "ecs/task/container/memory.max": "max",
		}, Limits{CPU: 2, Memory: 4 << 30}},
		{"the tightest of several", map[string]string{"self": "0::/a/b", "cpu.max": "400000 100000", "a/cpu.max": "50000 100000", "a/b/cpu.max": "100000 100000"}, Limits{CPU: 0.5}},
		{"a path of the host", map[string]string{"self": "0::/docker/123", "cpu.max": "150000 100000"}, Limits{CPU: 1.5}},
		{"version 1", map[string]string{
			"self": "4:memory:/m\n1:cpu,cpuacct:/c", "cpu/c/cpu.cfs_quota_us": "-1", "cpu/c/cpu.cfs_period_us": "100000",
			"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000",
			"memory/m/memory.limit_in_bytes": "1073741824", "memory/memory.limit_in_bytes": "9223372036854771712",
		}, Limits{CPU: 3, Memory: 1 << 30}},
		{"nonsense", map[string]string{"self": "x\n0::/", "cpu.max": "many few", "memory.max": "-5"}, Limits{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, tt.files)
			if diff := cmp.Diff(tt.want, cgroups(root, filepath.Join(root, "self"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTaskIsHeard(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"TaskARN":"arn:task/x/1","Limits":{"CPU":0.25,"Memory":64}}`))
	}))
	defer s.Close()
	if got := Read(context.Background(), s.URL); got != (Limits{CPU: 0.25, Memory: 64 << 20}) {
		t.Errorf("%+v", got) // less than any machine that runs this test has
	}
}
