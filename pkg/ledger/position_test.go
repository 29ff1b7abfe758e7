package ledger

import (
	"bytes"
	"testing"
)

func FuzzDecodePosition(f *testing.F) {
	f.Add([]byte(`{"epoch":1,"committed":2,"owner":"x","intent":{"from":3,"to":4,"hash":"h","want":{"a":1}},"lease":[1]}`))
	f.Add([]byte(`{"intent":null}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"Epoch":7,"epoch":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		p, err := decodePosition(value, 1)
		if err != nil {
			return
		}
		once, err := p.encode()
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		again, err := decodePosition(once, 1)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if again.Epoch != p.Epoch || again.Committed != p.Committed || again.owner != p.owner || (again.Intent == nil) != (p.Intent == nil) {
			t.Fatalf("%s became %s", value, once)
		}
		if twice, err := again.encode(); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s, %v", once, twice, err)
		}
	})
}
