package admin

import (
	"net"
	"net/netip"

	"github.com/labstack/echo/v4"
)

// clientAddress finds whom a request is from, for the bounds of tries and the
// audit trail: the connection's other end or, where that is a trusted proxy, the
// newest address of X-Forwarded-For that is none. What was in the header before
// it came to a trusted proxy is never believed.
func clientAddress(trusted []netip.Prefix) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, network := range trusted {
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP: network.Addr().AsSlice(), Mask: net.CIDRMask(network.Bits(), network.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}
