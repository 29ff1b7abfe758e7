// Package browser tests the pages of a real standalone process in a real
// browser: in light and dark colours, and at the width of a phone. A test fails
// if the browser's console shows an error or a warning.
//
// The tests need Chromium (Debian's package chromium) and the accessibility
// checker that `make assets` downloads at the version in package-lock.json. If
// one is missing, they fail and name it. Set LOGBOOM_SCREENSHOTS to a folder to
// keep screenshots.
package browser
