package protocol

import (
	"embed"
	"io/fs"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// Schemas returns the JSON Schemas (draft 2020-12) of all payloads, NAME.json each, the source of truth for the wire.
// Shared shapes are in common.json.
func Schemas() fs.FS {
	sub, err := fs.Sub(schemaFiles, "schemas")
	if err != nil {
		return schemaFiles // can't be: the name is valid
	}
	return sub
}

//go:generate go run ./ts/gen ./ts
