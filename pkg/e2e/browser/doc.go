// Package browser walks the pages as people do: a real browser in front of a
// real standalone, in light, dark and phone width, with nothing to complain
// about in its console.
//
// It needs Chromium (Debian's chromium) and the accessibility checker that
// `make assets` fetches by package-lock.json; without them the tests fail and
// say so. With LOGBOOM_SCREENSHOTS=folder the walk also takes pictures.
package browser
