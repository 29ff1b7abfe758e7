package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// ErrForbidden: the address leads where no webhook may go, and no setting of
// the operator allows it. Nothing was sent.
var ErrForbidden = errors.New("not allowed by the guard of webhooks")

// AllowList is what an operator lets webhooks reach although the guard forbids
// it: hosts with their port by name, and networks.
type AllowList struct {
	hosts    []string // host:port in lower case
	networks []netip.Prefix
}

// ParseAllowList reads entries such as chat.internal:8065, 10.1.2.3:8080 and
// 10.20.0.0/16; the error names the entry.
func ParseAllowList(entries []string) (AllowList, error) {
	var list AllowList
	for _, entry := range entries {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			list.networks = append(list.networks, prefix.Masked())
			continue
		}
		host, port, err := net.SplitHostPort(entry)
		if _, number := strconv.ParseUint(port, 10, 16); err != nil || host == "" || strings.Contains(host, "/") || number != nil {
			return AllowList{}, fmt.Errorf("%.100q is neither host:port, such as chat.internal:8065, nor a network, such as 10.20.0.0/16", entry)
		}
		list.hosts = append(list.hosts, net.JoinHostPort(host, port))
	}
	return list, nil
}

func (l *AllowList) names(hostPort string) bool {
	return slices.Contains(l.hosts, strings.ToLower(hostPort))
}

func (l *AllowList) holds(address netip.Addr) bool {
	return slices.ContainsFunc(l.networks, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) })
}

// guard decides on every connection, once its name is resolved: what a name
// says to a look-up before may differ from what it says now.
type guard struct {
	allow    AllowList
	resolver *net.Resolver
	patience time.Duration // for the way to a connection, names included, and again for TLS
	public   *ssrf.Guardian
}

// newGuard forbids all but global unicast addresses, on ports 443 and 80. The
// networks that the library lists are IANA's registries of special purposes;
// the ones named here are added in case it forgets one.
func newGuard(allow AllowList, resolver *net.Resolver, patience time.Duration) *guard {
	return &guard{allow: allow, resolver: resolver, patience: patience, public: ssrf.New(
		ssrf.WithPorts(443, 80),
		ssrf.WithDeniedV4Prefixes(prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
			"192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")...),
		ssrf.WithDeniedV6Prefixes(prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")...),
	)}
}

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text) // constants
	}
	return list
}

// dial connects where the guard lets it. Without TLS it lets nobody through
// that is not on the allow-list.
func (g *guard) dial(ctx context.Context, network, hostPort string, secure bool) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: g.patience, Resolver: g.resolver}
	if !g.allow.names(hostPort) {
		dialer.Control = func(network, address string, conn syscall.RawConn) error {
			return g.check(network, address, secure)
		}
	}
	return dialer.DialContext(ctx, network, hostPort)
}

// check decides on one resolved address.
func (g *guard) check(network, address string, secure bool) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrForbidden, "the address is no IP address with a port")
	}
	if g.allow.holds(target.Addr()) {
		return nil
	}
	if !secure {
		return fmt.Errorf("%w: plain http is for hosts on the allow-list only", ErrForbidden)
	}
	if err := g.public.Safe(network, address, nil); err != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return nil
}

// client posts through the guard: no redirects, no proxy, and no connection is
// kept, since a request on one that its server has just closed is a request
// of which nobody knows whether it arrived.
func (g *guard) client(secure bool, roots *x509.CertPool) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, hostPort string) (net.Conn, error) {
				return g.dial(ctx, network, hostPort, secure)
			},
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			TLSHandshakeTimeout:    g.patience,
			DisableKeepAlives:      true,
			DisableCompression:     true, // an answer of 4 KiB is not unpacked to more
			MaxResponseHeaderBytes: 16 << 10,
		},
	}
}
