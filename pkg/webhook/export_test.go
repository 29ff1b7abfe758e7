package webhook

import "net/url"

// Body returns the body of a message, for tests without a server.
func Body(format Format, m Message) ([]byte, error) {
	return payload(format, &url.URL{Path: "/services/x"}, url.Values{"chat_id": {"-1"}}, m)
}

// Check returns the guard's decision on a resolved address.
func Check(allow AllowList, address string, secure bool) error {
	return newGuard(allow, nil, defaultTimeout).check("tcp4", address, secure)
}
