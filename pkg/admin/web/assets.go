package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"
)

//go:embed assets
var assetFiles embed.FS

// assetRoot is where assets are served. The digest of all assets and the name
// follow, so that modules import each other by relative names.
const assetRoot = "/assets/"

// asset is one file, ready to be sent.
type asset struct {
	kind        string
	plain, gzip []byte // gzip is nil if it is not shorter
}

// assets are all files by name, under one digest.
type assets struct {
	digest string
	files  map[string]asset
}

// readAssets reads the embedded files in the order of their names, so that the
// digest is the same in every process of a build.
func readAssets() (*assets, error) {
	a := &assets{files: map[string]asset{}}
	all := sha256.New()
	err := fs.WalkDir(assetFiles, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := assetFiles.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "%s %d\n", name, len(content))
		all.Write(content)
		a.files[strings.TrimPrefix(name, "assets/")] = asset{assetKind(name), content, compressed(content)}
		return nil
	})
	a.digest = hex.EncodeToString(all.Sum(nil))[:16]
	return a, err
}

// assetKind returns the media type, independently of the machine's own tables.
func assetKind(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

func compressed(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is a good one
	_, _ = w.Write(content)                               // to memory
	_ = w.Close()
	if b.Len() >= len(content) {
		return nil
	}
	return b.Bytes()
}

// path returns where the asset is served, or an error if there is no such asset,
// so that a template with a wrong name fails.
func (a *assets) path(name string) (string, error) {
	if _, ok := a.files[name]; !ok {
		return "", fmt.Errorf("no asset %s", name)
	}
	return assetRoot + a.digest + "/" + name, nil
}

// serveAsset serves an asset. Under the digest of this build, browsers may cache
// it for ever. Under another digest it serves the same file without caching,
// because pages of another build request it while processes are replaced.
func (p *Pages) serveAsset(c echo.Context) error {
	found, ok := p.assets.files[c.Param("*")]
	if !ok {
		return p.notFound(c)
	}
	h := c.Response().Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Vary", echo.HeaderAcceptEncoding)
	h.Set("Cache-Control", "no-cache")
	if c.Param("hash") == p.assets.digest {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if found.gzip != nil && acceptsGzip(c.Request()) {
		h.Set(echo.HeaderContentEncoding, "gzip")
		return c.Blob(http.StatusOK, found.kind, found.gzip)
	}
	return c.Blob(http.StatusOK, found.kind, found.plain)
}

// acceptsGzip reports whether the client names gzip without a quality of 0.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get(echo.HeaderAcceptEncoding), ",") {
		if name, quality, _ := strings.Cut(strings.TrimSpace(part), ";"); name == "gzip" && strings.TrimSpace(quality) != "q=0" {
			return true
		}
	}
	return false
}
