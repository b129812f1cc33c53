// Package page shows the page of the admin listener to a real Chromium, headless: with three partitions and with three
// hundred, in the light and in the dark, on a phone, without JavaScript, and live.
//
// Browser speaks the DevTools protocol over the two pipes that Chromium offers for it, so that there is no port and no
// client library. It has one goroutine, which reads; Close ends the browser and waits for both. Chromium must be on the
// machine (Debian's package chromium; FENCEPOST_TEST_CHROMIUM names another one): .ci/run installs it.
//
// With -page.shots DIR the tests leave their pictures there, for a person to look at.
package page
