package engine

import (
	"fmt"
	"runtime"
)

// Version is the npm version of the libchdb release whose digests are pinned
// below. It contains ClickHouse 26.7.
const Version = "26.7.3-stable.1"

// Release is one platform's build of the library.
type Release struct {
	Package   string // npm package
	File      string // the library's name inside the package
	Integrity string // SHA-512 of the package's archive, as npm writes it
	Digest    string // SHA-256 of the library, in hexadecimal
}

// CurrentRelease is the build for this platform. Only platforms on which it was
// tried are pinned. On others the operator names a library with its digest, or
// a ClickHouse server.
func CurrentRelease() (Release, error) { return releaseFor(runtime.GOOS, runtime.GOARCH) }

func releaseFor(goos, goarch string) (Release, error) {
	switch goos + "/" + goarch {
	case "linux/amd64":
		return Release{
			Package:   "@chdb/lib-linux-x64-gnu",
			File:      "libchdb.so",
			Integrity: "sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw==",
			Digest:    "36ad4e999882821ef13cf2d0f52c93f48e6ee1b4498b35a201c23ce4b8d15bf5",
		}, nil
	}
	return Release{}, fmt.Errorf("no libchdb is pinned for %s/%s: set LOGBOOM_CLICKHOUSE_URL to a ClickHouse server, or name a library and its digest", goos, goarch)
}
