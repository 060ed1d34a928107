package cron

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a container may have no zone files; a schedule must not end for that
)

var fixedOffset = regexp.MustCompile(`^utc(?:([+-]\d{1,2})(?::(\d{2}))?)?$`)

// Zone finds a time zone by its name in the tz database, or as UTC, GMT or UTC+5:30. "", local and system are the zone of this process,
// as they are for Node.
func Zone(name string) (*time.Location, error) {
	low := strings.ToLower(name)

	switch low {
	case "", "local", "system", "default":
		return time.Local, nil
	case "gmt":
		return time.UTC, nil
	}

	if parts := fixedOffset.FindStringSubmatch(low); parts != nil {
		if parts[1] == "" {
			return time.UTC, nil
		}

		hours, _ := strconv.Atoi(parts[1])
		minutes, _ := strconv.Atoi(parts[2])

		if hours < 0 || strings.HasPrefix(parts[1], "-") {
			minutes = -minutes
		}

		return time.FixedZone(name, hours*3600+minutes*60), nil
	}

	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", name, err)
	}

	return loc, nil
}
