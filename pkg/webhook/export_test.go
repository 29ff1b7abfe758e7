package webhook

import "net/url"

// Body is the body of a message, for tests that need no server.
func Body(format Format, m Message) ([]byte, error) {
	return payload(format, &url.URL{Path: "/services/x"}, url.Values{"chat_id": {"-1"}}, m)
}

// Check is what the guard says of a resolved address.
func Check(allow AllowList, address string, secure bool) error {
	return newGuard(allow, nil, defaultTimeout).check("tcp4", address, secure)
}
