package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
)

// release is the Debian that the image is made of.
const release = "bookworm"

// keyring has the keys that the packages of a base image are checked with.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// systemCerts is where Debian's programs look for certificate authorities, and hostCerts where the base image keeps those of this
// machine: installing the package ca-certificates writes the first one anew.
const (
	systemCerts = "/etc/ssl/certs/ca-certificates.crt"
	hostCerts   = "/etc/ssl/host-ca-certificates.pem"
)

// bases makes the base images that the Dockerfile starts from, under its names, unless they are there.
func (b *Builder) bases(ctx context.Context) error {
	names, err := baseNames(filepath.Join(b.Root, "Dockerfile"))
	if err != nil {
		return err
	}

	if !b.has(ctx, names.slim) {
		b.say("base image %s by debootstrap …", names.slim)

		if err := b.makeSlim(ctx, names.slim); err != nil {
			return fmt.Errorf("base image %s: %w", names.slim, err)
		}
	}

	if !b.has(ctx, names.golang) {
		b.say("base image %s with the Go of this machine …", names.golang)

		if err := b.makeGo(ctx, names.slim, names.golang); err != nil {
			return fmt.Errorf("base image %s: %w", names.golang, err)
		}
	}

	return nil
}

// baseImages are the names of the Dockerfile's base images.
type baseImages struct{ slim, golang string }

func baseNames(dockerfile string) (baseImages, error) {
	raw, err := os.ReadFile(dockerfile)
	if err != nil {
		return baseImages{}, err
	}

	var names baseImages

	for _, m := range regexp.MustCompile(`(?m)^ARG (BASE_IMAGE|GO_IMAGE)=(\S+)$`).FindAllStringSubmatch(string(raw), -1) {
		if m[1] == "BASE_IMAGE" {
			names.slim = m[2]
		} else {
			names.golang = m[2]
		}
	}

	if names.slim == "" || names.golang == "" {
		return names, errors.New("the Dockerfile names no BASE_IMAGE or no GO_IMAGE")
	}

	return names, nil
}

// makeSlim makes what Debian's slim image is: the smallest system with apt, without documents and languages, up to date.
func (b *Builder) makeSlim(ctx context.Context, tag string) error {
	source, err := packageSources(ctx)
	if err != nil {
		return err
	}

	c, err := b.from(ctx, "scratch")
	if err != nil {
		return err
	}
	defer b.remove(c)

	err = proc.Run(ctx, proc.Spec{Args: []string{
		"debootstrap", "--variant=minbase", "--keyring=" + keyring, release, c.root, source.mirror,
	}})
	if err != nil {
		return err
	}

	if err := writeFiles(c.root, map[string]string{
		"etc/apt/sources.list":                  "",
		"etc/apt/sources.list.d/debian.sources": source.deb822,
		"etc/apt/apt.conf.d/90host":             source.config,
		"etc/apt/apt.conf.d/90slim":             "APT::Install-Recommends \"false\";\nAcquire::Languages \"none\";\n",
		// As in published base images: a container that is being built needs no sync after every file.
		"etc/dpkg/dpkg.cfg.d/90unsafe-io": "force-unsafe-io\n",
		"etc/dpkg/dpkg.cfg.d/90slim":      "path-exclude /usr/share/doc/*\npath-include /usr/share/doc/*/copyright\npath-exclude /usr/share/man/*\npath-exclude /usr/share/locale/*\npath-exclude /usr/share/info/*\n",
		"usr/sbin/policy-rc.d":            "#!/bin/sh\nexit 101\n",
		"etc/apt/apt.conf.d/91clean":      "DPkg::Post-Invoke { \"rm -f /var/cache/apt/archives/*.deb\"; };\n",
	}); err != nil {
		return err
	}

	for _, args := range [][]string{
		{"apt-get", "update", "-q"},
		{"apt-get", "upgrade", "-y", "-q"},
		{"sh", "-c", "rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/* /usr/share/man/* /usr/share/locale/* /usr/share/info/* && find /usr/share/doc -type f ! -name copyright -delete"},
	} {
		if err := proc.Run(ctx, b.buildah(append([]string{"run", "--env", "DEBIAN_FRONTEND=noninteractive", c.name, "--"}, args...)...)); err != nil {
			return err
		}
	}

	if err := proc.Run(ctx, b.buildah("config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--cmd", "bash", c.name)); err != nil {
		return err
	}

	return b.commit(ctx, c, tag)
}

// makeGo adds this machine's Go, certificate authorities and way to the outside.
func (b *Builder) makeGo(ctx context.Context, slim, tag string) error {
	goroot, err := proc.Output(ctx, proc.Spec{Dir: b.Root, Args: []string{"go", "env", "GOROOT"}})
	if err != nil {
		return err
	}

	c, err := b.from(ctx, slim)
	if err != nil {
		return err
	}
	defer b.remove(c)

	steps := []proc.Spec{
		{Args: []string{"cp", "-a", strings.TrimSpace(goroot), filepath.Join(c.root, "usr/local/go")}},
		{Args: []string{"install", "-D", "-m", "644", trustedCerts(), filepath.Join(c.root, hostCerts)}},
		b.buildah("config",
			"--env", "PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"--env", "GOTOOLCHAIN=local",
			"--env", "SSL_CERT_FILE="+hostCerts,
			"--env", "NODE_EXTRA_CA_CERTS="+hostCerts,
			"--env", "DEBIAN_FRONTEND=noninteractive", c.name),
	}
	for _, s := range steps {
		if err := proc.Run(ctx, s); err != nil {
			return err
		}
	}

	return b.commit(ctx, c, tag)
}

// trustedCerts is the file of certificate authorities that this machine trusts.
func trustedCerts() string {
	if path := os.Getenv("SSL_CERT_FILE"); path != "" {
		return path
	}

	return systemCerts
}

// sources is where this machine gets Debian's packages from.
type sources struct {
	mirror string // for debootstrap
	deb822 string // of release, its updates and its security fixes
	config string // apt.conf with proxies and the like
}

// packageSources asks apt, which knows whatever form the configuration has.
func packageSources(ctx context.Context) (*sources, error) {
	out, err := proc.Output(ctx, proc.Spec{Args: []string{
		"apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages",
	}})
	if err != nil {
		return nil, err
	}

	s := &sources{}

	var stanzas []string

	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] != "Debian" || !strings.HasPrefix(f[2], release) || f[3] != "main" {
			continue
		}

		uri, suite := strings.TrimSuffix(f[1], "/"), f[2]
		if suite == release {
			s.mirror = uri
		}

		stanzas = append(stanzas, "Types: deb\nURIs: "+uri+"\nSuites: "+suite+"\nComponents: main\nSigned-By: "+keyring+"\n")
	}

	if s.mirror == "" {
		return nil, fmt.Errorf("apt has no source for Debian %s on this machine (apt-get update?)", release)
	}

	slices.Sort(stanzas)
	s.deb822 = strings.Join(slices.Compact(stanzas), "\n")
	s.config, err = aptConfig(ctx)

	return s, err
}

// aptConfig is the part of apt's configuration that says how to reach the sources.
func aptConfig(ctx context.Context) (string, error) {
	out, err := proc.Output(ctx, proc.Spec{Args: []string{"apt-config", "dump"}})
	if err != nil {
		return "", err
	}

	var kept strings.Builder

	for line := range strings.Lines(out) {
		if regexp.MustCompile(`^Acquire::https?::.*(Proxy|Verify|CaInfo).* "[^"]+";`).MatchString(line) {
			kept.WriteString(line)
		}
	}

	return kept.String(), nil
}

// writeFiles writes files below root; those in sbin can be run.
func writeFiles(root string, files map[string]string) error {
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}

		mode := os.FileMode(0o644)
		if strings.Contains(name, "sbin/") {
			mode = 0o755
		}

		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			return err
		}
	}

	return nil
}
