package worker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posefleet/posefleet/protocol/webhook"
)

// fargateStop is the longest time that Fargate leaves a task after SIGTERM, less what giving back and leaving takes.
const fargateStop = 95 * time.Second

// Warnings names what is possible but hardly meant, one sentence each.
func (c *Config) Warnings() []string {
	var out []string
	if c.ECSMetadataURI != "" && c.DrainTimeout > fargateStop {
		out = append(out, fmt.Sprintf("%sDRAIN_TIMEOUT is %s; Fargate kills a task 120 s after SIGTERM at the latest", EnvPrefix, c.DrainTimeout))
	}
	if shared(c.WorkerSecrets, c.DoorSecrets) {
		out = append(out, fmt.Sprintf("%[1]sWORKER_SECRET and %[1]sDOOR_SECRET share a secret: a captured message of one direction is valid in the other", EnvPrefix))
	}
	if strings.HasPrefix(c.ControlURL, "http:") && !c.AllowInsecure {
		out = append(out, EnvPrefix+"CONTROL_URL is not https: whoever listens can read the URLs of the clips")
	}
	return out
}

func shared(a, b []webhook.Secret) bool {
	known := webhook.Fingerprints(a)
	return slices.ContainsFunc(webhook.Fingerprints(b), func(f string) bool { return slices.Contains(known, f) })
}
