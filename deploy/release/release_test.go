package main

import (
	"bytes"
	"crypto/x509"
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	imagelayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/facetheory/isr/internal/version"
)

var host = platform{runtime.GOOS, runtime.GOARCH}

// TestRelease makes the release for this machine twice, from two folders, and installs and runs
// all of it.
func TestRelease(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1795500000")
	source := copyOfRepository(t, repository(t)) // once: other tests may write into the checkout during this one
	first := makeRelease(t, source)
	before := syscall.Umask(0o077)
	t.Setenv("TZ", "Asia/Kathmandu")
	second := makeRelease(t, copyOfRepository(t, source))
	syscall.Umask(before)
	t.Run("reproducible", func(t *testing.T) { sameFiles(t, first, second) })
	t.Run("checksums", func(t *testing.T) {
		succeed(t, first.output, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	})
	t.Run("archive", func(t *testing.T) { testArchive(t, first) })
	t.Run("bill of materials", func(t *testing.T) { testBill(t, first) })
	if host.os != "linux" {
		t.Skip("packages and images are not tested: they need Linux")
	}
	t.Run("deb", func(t *testing.T) { testDeb(t, first) })
	t.Run("rpm", func(t *testing.T) { testRPM(t, first) })
	t.Run("image", func(t *testing.T) { testImage(t, first) })
}

// makeRelease makes the release of a checkout for this machine.
func makeRelease(t *testing.T, source string) *release {
	t.Helper()
	r, err := run(t.Context(), command{Output: filepath.Join(t.TempDir(), "release"), Source: source, Platform: []platform{host}}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// repository returns the absolute path of the checkout.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// copyOfRepository returns another folder with the files of a checkout, also those that are not
// committed, in a clone at the same commit.
func copyOfRepository(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "elsewhere")
	succeed(t, from, nil, "git", "clone", "--quiet", "--shared", from, to)
	listed := succeed(t, from, nil, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	for name := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		copyFile(t, filepath.Join(from, name), filepath.Join(to, name))
	}
	return to
}

// sameFiles compares two releases.
func sameFiles(t *testing.T, a, b *release) {
	t.Helper()
	if !slices.Equal(a.made, b.made) || len(a.made) < 5 {
		t.Errorf("made %q, then %q", a.made, b.made)
	}
	for _, name := range a.made {
		one, err1 := os.ReadFile(filepath.Join(a.output, name))
		other, err2 := os.ReadFile(filepath.Join(b.output, name))
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s differs between two releases: %v", name, err)
		}
	}
}

// testArchive unpacks the archive and follows its README.
func testArchive(t *testing.T, r *release) {
	dir := t.TempDir()
	unpack(t, dir, filepath.Join(r.output, r.name(host)+".tar.gz"))
	folder := filepath.Join(dir, r.name(host))
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "completions/isr.bash", "completions/_isr", "completions/isr.fish", "man/isr.1", "man/isr-serve.1"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	isr := filepath.Join(folder, "isr")
	if got := succeed(t, dir, nil, isr, "--version"); !strings.HasPrefix(got, "isr "+r.build.Version+" (") {
		t.Errorf("isr --version: %s, want %s", got, r.build.Version)
	}
	info, err := buildinfo.ReadFile(isr)
	if err != nil || version.Of(info) != r.build {
		t.Errorf("built from %+v, want %+v: %v", version.Of(info), r.build, err)
	}
	s := start(t, exec.CommandContext(t.Context(), isr, "serve", "--demo", "--listen", "127.0.0.1:0", "--admin", "none"), dir)
	s.visit()
	succeed(t, dir, nil, isr, "healthcheck")
	s.stop()
}

// testBill checks that the bill of materials has all modules, with licenses.
func testBill(t *testing.T, r *release) {
	file, err := os.Open(filepath.Join(r.output, r.name(host)+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(file, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, c := range *bom.Components {
		listed[c.Name+"@"+c.Version] = true
		if c.Licenses == nil || len(*c.Licenses) == 0 {
			t.Errorf("%s has no license", c.Name)
		}
	}
	for _, m := range r.binaries[0].info.Deps {
		if !listed[m.Path+"@"+m.Version] {
			t.Errorf("%s is missing", m.Path)
		}
	}
	if !listed["std@"+strings.TrimPrefix(runtime.Version(), "go")] {
		t.Errorf("the standard library is missing")
	}
}

// testDeb installs the package in a root of its own, runs what it has, and purges it.
func testDeb(t *testing.T, r *release) {
	needs(t, "dpkg", "the deb")
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		folder(t, filepath.Join(root, dir))
	}
	write(t, filepath.Join(root, "var/lib/dpkg/status"), "")
	dpkg := func(args ...string) string {
		t.Helper()
		return succeed(t, root, nil, "dpkg", append([]string{"--root=" + root, "--force-script-chrootless", "--force-not-root", "--log=" + os.DevNull}, args...)...)
	}
	dpkg("--install", made(t, r, "*.deb"))
	if got, want := strings.Fields(dpkg("--listfiles", "isr")), filesOfPackage("/usr/share/zsh/vendor-completions/_isr"); !containsAll(got, want) {
		t.Errorf("the package has %q, want %q", got, want)
	}
	isr := filepath.Join(root, "usr/bin/isr")
	succeed(t, root, nil, isr, "config", "check", filepath.Join(root, "etc/isr/isr.yaml"))
	s := start(t, exec.CommandContext(t.Context(), isr, "serve", "--demo", "--listen", "127.0.0.1:0", "--admin", "none"), t.TempDir())
	s.visit()
	s.stop()
	testUnit(t, root)
	dpkg("--purge", "isr")
	for _, path := range []string{"usr/bin/isr", "etc/isr"} {
		if _, err := os.Stat(filepath.Join(root, path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s stays after a purge: %v", path, err)
		}
	}
}

// testUnit checks the units of systemd in the root of an installed package.
func testUnit(t *testing.T, root string) {
	needs(t, "systemd-analyze", "the unit of systemd")
	// The dependencies of the unit are the machine's.
	for _, dir := range []string{"usr/lib/systemd/system", "etc/systemd/system"} {
		folder(t, filepath.Join(root, dir))
	}
	units, err := filepath.Glob("/lib/systemd/system/*.t*")
	if err != nil || len(units) == 0 {
		t.Fatalf("no units of systemd: %v", err)
	}
	for _, unit := range units {
		if text, err := os.ReadFile(unit); err == nil {
			write(t, filepath.Join(root, "usr/lib/systemd/system", filepath.Base(unit)), string(text))
		}
	}
	verify := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--root="+root, "--man=no", "isr.service", "isr.socket")
	report, err := verify.CombinedOutput()
	for line := range strings.Lines(string(report)) {
		// Before 253, for its second line.
		if (strings.Contains(line, "isr.service") || strings.Contains(line, "isr.socket")) && !strings.Contains(line, "Failed to parse service type, ignoring: notify-reload") {
			t.Errorf("systemd-analyze verify: %s", line)
		}
	}
	if err != nil {
		t.Errorf("systemd-analyze verify: %v\n%s", err, report)
	}
	// 20 of 100, which systemd rates as "OK"; the unit has 16 with systemd 252.
	out := succeed(t, root, nil, "systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", "--root="+root, "isr.service")
	rating := regexp.MustCompile(`exposure level for isr.service: ([0-9.]+)`).FindStringSubmatch(out)
	if rating == nil {
		t.Fatalf("no exposure level in %s", out)
	}
	t.Logf("exposure level %s of 10", rating[1])
}

// testRPM installs the package in a root of its own, and removes it.
func testRPM(t *testing.T, r *release) {
	needs(t, "rpm", "the rpm")
	root, file := t.TempDir(), made(t, r, "*.rpm")
	rpm := func(args ...string) string {
		t.Helper()
		return succeed(t, root, nil, "rpm", append([]string{"--root=" + root, "--dbpath=/var/lib/rpm"}, args...)...)
	}
	rpm("--install", "--nodeps", "--noscripts", file) // scripts would need a shell in the root
	if got, want := strings.Fields(rpm("--query", "--list", "isr")), filesOfPackage("/usr/share/zsh/site-functions/_isr"); !containsAll(got, want) {
		t.Errorf("the package has %q, want %q", got, want)
	}
	if got := strings.Fields(rpm("--query", "--configfiles", "isr")); !slices.Equal(got, []string{"/etc/isr/isr.yaml"}) {
		t.Errorf("configuration files: %q", got)
	}
	rpm("--verify", "--nodeps", "isr")
	if got := succeed(t, root, nil, filepath.Join(root, "usr/bin/isr"), "--version"); !strings.HasPrefix(got, "isr "+r.build.Version) {
		t.Errorf("isr --version: %s", got)
	}
	scripts := rpm("--query", "--scripts", "isr")
	for _, want := range []string{"postinstall scriptlet", "preuninstall scriptlet", "postuninstall scriptlet"} {
		if !strings.Contains(scripts, want) {
			t.Errorf("no %s in %s", want, scripts)
		}
	}
	rpm("--erase", "--noscripts", "isr")
}

// filesOfPackage returns files that a package must have.
func filesOfPackage(zsh string) []string {
	return []string{
		"/etc/isr/isr.yaml", "/usr/bin/isr", "/usr/lib/systemd/system/isr.service", "/usr/lib/systemd/system/isr.socket", "/usr/share/bash-completion/completions/isr",
		"/usr/share/fish/vendor_completions.d/isr.fish", zsh, "/usr/share/man/man1/isr.1.gz", "/usr/share/man/man1/isr-serve.1.gz", "/usr/share/doc/isr/LICENSE",
	}
}

// testImage unpacks the image of this machine, and runs it as its user with nothing else.
func testImage(t *testing.T, r *release) {
	dir, root := t.TempDir(), filepath.Join(t.TempDir(), "root")
	unpack(t, dir, filepath.Join(r.output, "isr_"+r.build.Version+"_image.tar"))
	index, err := imagelayout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	image := imageOf(t, index, host)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.Architecture != host.arch || config.OS != "linux" {
		t.Errorf("the image is for %s/%s and the user %s", config.OS, config.Architecture, config.Config.User)
	}
	if os.Getuid() != 0 {
		t.Skip("the image is not run: chroot needs root")
	}
	folder(t, root)
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	extract(t, root, content)
	roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(roots) || bytes.Count(roots, []byte("BEGIN")) < 100 {
		t.Errorf("%d certificates of authorities: %v", bytes.Count(roots, []byte("BEGIN")), err)
	}
	inImage := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(slices.Clone(config.Config.Env), "TZ=Europe/Berlin")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
		return cmd
	}
	health := config.Config.Healthcheck.Test[1:]
	before := inImage(health...)
	before.Dir = config.Config.WorkingDir
	if err := before.Run(); err == nil {
		t.Error("the health check succeeds without a server")
	}
	s := start(t, inImage(append(slices.Clone(config.Config.Entrypoint), config.Config.Cmd[0], "--demo", "--listen", "127.0.0.1:0", "--admin", "none")...), config.Config.WorkingDir)
	s.visit()
	after := inImage(health...)
	after.Dir = config.Config.WorkingDir
	if out, err := after.CombinedOutput(); err != nil || string(out) != "ready\n" {
		t.Errorf("the health check: %v\n%s", err, out)
	}
	s.stop()
	if !strings.Contains(s.log.String(), "+01:00") && !strings.Contains(s.log.String(), "+02:00") {
		t.Errorf("the log is not in the time zone of TZ:\n%s", &s.log)
	}
	if _, err := os.Stat(filepath.Join(root, imageFolder, "isr-data", "table.db")); err != nil {
		t.Errorf("no store in the volume: %v", err)
	}
}

// imageOf returns the image of a platform in a layout.
func imageOf(t *testing.T, layout v1.ImageIndex, p platform) v1.Image {
	t.Helper()
	outer, err := layout.IndexManifest()
	if err != nil || len(outer.Manifests) != 1 {
		t.Fatalf("the layout has %+v: %v", outer, err)
	}
	inner, err := layout.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		if d.Platform.OS == p.os && d.Platform.Architecture == p.arch {
			image, err := inner.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
	}
	t.Fatalf("no image for %s in %+v", p, manifest.Manifests)
	return nil
}
