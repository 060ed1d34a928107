package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
)

// debianPackages installs those of the packages that are missing. It needs the right to: without it, it says what is missing.
func (s *Setup) debianPackages(ctx context.Context, names []string) error {
	if !proc.Found("dpkg-query") {
		return fmt.Errorf("this is not Debian: install by hand what these packages of Debian 12 hold: %s", strings.Join(names, " "))
	}

	missing, err := missingPackages(ctx, names)
	if err != nil {
		return err
	}

	if len(missing) > 0 {
		if err := s.install(ctx, missing); err != nil {
			return err
		}
	}

	return checkVersions(ctx, names)
}

func (s *Setup) install(ctx context.Context, missing []string) error {
	list := strings.Join(missing, " ")
	if os.Getuid() != 0 {
		return fmt.Errorf("packages are missing, and only root may install them: apt-get install --no-install-recommends %s", list)
	}

	return s.step("Debian packages: "+list, func() error {
		if err := s.aptUpdate(ctx); err != nil {
			return err
		}

		return proc.Run(ctx, proc.Spec{
			Env:  aptEnv(),
			Args: append([]string{"apt-get", "install", "-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"}, missing...),
		})
	})
}

// aptUpdate fetches the package lists, once per run.
func (s *Setup) aptUpdate(ctx context.Context) error {
	if s.aptUpdated {
		return nil
	}

	err := proc.Run(ctx, proc.Spec{
		Env:  aptEnv(),
		Args: []string{"apt-get", "update", "-q", "-o", "DPkg::Lock::Timeout=300", "-o", "APT::Update::Error-Mode=any"},
	})
	if err != nil {
		return fmt.Errorf("cannot fetch Debian's package lists (no network?): %w", err)
	}

	s.aptUpdated = true

	return nil
}

// aptEnv keeps apt from asking, and the installed servers from being started: posefleet starts its own on free ports.
func aptEnv() []string {
	return []string{"DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"}
}

// installed is the version of each installed package among names.
func installed(ctx context.Context, names []string) (map[string]string, error) {
	args := append([]string{"dpkg-query", "-W", "-f", "${Package} ${db:Status-Status} ${Version}\n"}, names...)

	// Status 1 says that some are unknown to dpkg, which is an answer.
	out, err := proc.Output(ctx, proc.Spec{Args: args})
	if fault, ok := errors.AsType[*proc.Error](err); ok && !strings.Contains(fault.Output, "no packages found") {
		return nil, err
	}

	versions := map[string]string{}

	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "installed" {
			versions[f[0]] = f[2]
		}
	}

	return versions, nil
}

func missingPackages(ctx context.Context, names []string) ([]string, error) {
	have, err := installed(ctx, names)
	if err != nil {
		return nil, err
	}

	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, ok := have[name]

		return ok
	}), nil
}

func checkVersions(ctx context.Context, names []string) error {
	have, err := installed(ctx, names)
	if err != nil {
		return err
	}

	for name, want := range debianVersions {
		if got, ok := have[name]; ok && !strings.HasPrefix(got, want) {
			return fmt.Errorf("package %s has version %s, but %sx is needed (Debian 12 has it)", name, got, want)
		}
	}

	return nil
}

// HasCertificates reports whether programs here can tell whom to trust, without which nothing can be fetched over HTTPS.
func HasCertificates() bool {
	if os.Getenv("SSL_CERT_FILE") != "" {
		return true
	}

	_, err := os.Stat("/etc/ssl/certs/ca-certificates.crt")

	return err == nil
}

// nodeProgram sees to a Node that is new enough, with npm.
func (s *Setup) nodeProgram(ctx context.Context) error {
	if nodeMajor(ctx) < minNodeMajor || !proc.Found("npm") {
		if err := s.debianPackages(ctx, packagesNode); err != nil {
			return err
		}
	}

	if major := nodeMajor(ctx); major < minNodeMajor {
		return fmt.Errorf("node %d is too old: %d or newer is needed", major, minNodeMajor)
	}

	return nil
}

// nodeMajor is the 20 of v20.11.1; 0 where there is no node.
func nodeMajor(ctx context.Context) int {
	if !proc.Found("node") {
		return 0
	}

	out, err := proc.Output(ctx, proc.Spec{Args: []string{"node", "--version"}})
	if err != nil {
		return 0
	}

	major, _, _ := strings.Cut(strings.TrimPrefix(out, "v"), ".")

	n, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}

	return n
}
