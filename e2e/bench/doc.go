// Package bench holds measurements of parts of Fencepost beside other ways to do the same. It is a module of its own, so
// that what it compares with weighs on nobody who uses Fencepost. README.md has the commands and the figures.
package bench
