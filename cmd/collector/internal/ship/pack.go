package ship

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/logboom/logboom/cmd/collector/internal/option"
)

// packer compresses bodies.
type packer interface {
	// appendPacked adds the compressed body to dst.
	appendPacked(dst, body []byte) ([]byte, error)
}

// newPacker is the packer of a compression, nil for none.
func newPacker(compression string) packer {
	switch compression {
	case option.Gzip:
		return &gzipPacker{}
	case option.Zstd:
		return &zstdPacker{}
	}
	return nil
}

type gzipPacker struct{ writer *gzip.Writer }

func (p *gzipPacker) appendPacked(dst, body []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	if p.writer == nil {
		p.writer, _ = gzip.NewWriterLevel(out, gzip.BestSpeed) // the level is one
	} else {
		p.writer.Reset(out)
	}
	if _, err := p.writer.Write(body); err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if err := p.writer.Close(); err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return out.Bytes(), nil
}

type zstdPacker struct{ encoder *zstd.Encoder }

func (p *zstdPacker) appendPacked(dst, body []byte) (_ []byte, err error) {
	if p.encoder == nil {
		p.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	}
	return p.encoder.EncodeAll(body, dst), nil
}
