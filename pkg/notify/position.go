package notify

import (
	"context"
	"encoding/json"
	"fmt"
)

// logsKey is where it is noted how far a stream of logs is told of.
func logsKey(name string) string { return "logs." + name }

// next reads which message of a stream is to be read next; 0 where that was not
// noted.
func (b *Bucket) next(ctx context.Context, name string) (seq uint64, err error) {
	entry, err := b.get(ctx, logsKey(name))
	if err != nil || entry == nil {
		return 0, err
	}
	return seq, json.Unmarshal(entry.Value(), &seq)
}

func (b *Bucket) putNext(ctx context.Context, name string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := b.kv.Put(ctx, logsKey(name), fmt.Append(nil, seq))
	return err
}

// forget takes back the positions, once nobody wants logs: who wants some later
// is told of those that come from then on.
func (b *Bucket) forget(ctx context.Context, names []string) error {
	for _, name := range names {
		switch next, err := b.next(ctx, name); {
		case err != nil:
			return err
		case next == 0:
			continue
		}
		if err := b.putNext(ctx, name, 0); err != nil {
			return err
		}
	}
	return nil
}
