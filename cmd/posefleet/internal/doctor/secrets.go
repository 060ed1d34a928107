package doctor

import (
	"strings"

	"github.com/posefleet/posefleet/protocol/webhook"
)

// examineSecrets shows the fingerprints, by which two sides can be compared. door is empty if the HTTP door is closed.
func examineSecrets(worker, door []webhook.Secret) []Finding {
	var found []Finding

	for _, s := range []struct {
		name    string
		secrets []webhook.Secret
	}{{"worker secret", worker}, {"door secret", door}} {
		if len(s.secrets) == 0 {
			continue
		}

		found = append(found, good(s.name, "%s, newest first, with fingerprint %s", number(int64(len(s.secrets)), "secret", "secrets"), prints(s.secrets)))
	}

	for _, a := range worker {
		for _, b := range door {
			if a.Fingerprint() == b.Fingerprint() {
				found[len(found)-1] = warning("door secret", "make one secret for each direction",
					"%s is the worker secret as well: what one side has signed can be played back to the other", a.Fingerprint())
			}
		}
	}

	return found
}

func prints(secrets []webhook.Secret) string {
	return strings.Join(webhook.Fingerprints(secrets), ", ")
}

// nobody signs nothing; for clients that are only asked about their rules.
func nobody() *webhook.Signer { return webhook.NewSigner(nil) }
