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

// ErrForbidden reports an address that is not on the public internet and not on
// the operator's allow-list. Nothing was sent.
var ErrForbidden = errors.New("not allowed for webhooks")

// AllowList holds the hosts and networks that an operator allows webhooks to
// reach although they are not on the public internet.
type AllowList struct {
	hosts    []string // host:port in lower case
	networks []netip.Prefix
}

// ParseAllowList parses entries such as chat.internal:8065, 10.1.2.3:8080 and
// 10.20.0.0/16. The error names the wrong entry.
func ParseAllowList(entries []string) (AllowList, error) {
	var list AllowList
	for _, entry := range entries {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			list.networks = append(list.networks, prefix.Masked())
			continue
		}
		host, port, err := net.SplitHostPort(entry)
		if _, badPort := strconv.ParseUint(port, 10, 16); err != nil || host == "" || strings.Contains(host, "/") || badPort != nil {
			return AllowList{}, fmt.Errorf("%.100q is neither host:port, such as chat.internal:8065, nor a network, such as 10.20.0.0/16", entry)
		}
		list.hosts = append(list.hosts, net.JoinHostPort(host, port))
	}
	return list, nil
}

func (l *AllowList) containsHost(hostPort string) bool {
	return slices.Contains(l.hosts, strings.ToLower(hostPort))
}

func (l *AllowList) containsIP(address netip.Addr) bool {
	return slices.ContainsFunc(l.networks, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) })
}

// guard checks the address of every connection after its name was resolved. A
// check of the name before the connection could see another address.
type guard struct {
	allow    AllowList
	resolver *net.Resolver
	timeout  time.Duration // for the connection, including the name; and again for TLS
	public   *ssrf.Guardian
}

// newGuard allows global unicast addresses on the ports 443 and 80. The library
// denies the networks of IANA's special-purpose registries.
func newGuard(allow AllowList, resolver *net.Resolver, timeout time.Duration) *guard {
	return &guard{allow: allow, resolver: resolver, timeout: timeout, public: ssrf.New(ssrf.WithPorts(443, 80))}
}

// dial connects to an allowed address. Without TLS, only addresses of the
// allow-list are allowed.
func (g *guard) dial(ctx context.Context, network, hostPort string, secure bool) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: g.timeout, Resolver: g.resolver}
	if !g.allow.containsHost(hostPort) {
		dialer.Control = func(network, address string, conn syscall.RawConn) error {
			return g.check(network, address, secure)
		}
	}
	return dialer.DialContext(ctx, network, hostPort)
}

// check returns ErrForbidden if a resolved address is not allowed.
func (g *guard) check(network, address string, secure bool) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrForbidden, "not an IP address with a port")
	}
	if g.allow.containsIP(target.Addr()) {
		return nil
	}
	if !secure {
		return fmt.Errorf("%w: plain http is only for hosts on the allow-list", ErrForbidden)
	}
	if err := g.public.Safe(network, address, nil); err != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return nil
}

// client returns a client that connects through the guard, without redirects and
// proxies. It keeps no connections: if a server closes a kept connection just
// when a request is written to it, it is unknown whether the request arrived.
func (g *guard) client(secure bool, roots *x509.CertPool) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, hostPort string) (net.Conn, error) {
				return g.dial(ctx, network, hostPort, secure)
			},
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			TLSHandshakeTimeout:    g.timeout,
			DisableKeepAlives:      true,
			DisableCompression:     true, // an answer of 4 KiB must not become larger
			MaxResponseHeaderBytes: 16 << 10,
		},
	}
}
