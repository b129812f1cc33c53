package storetest

import "testing"

func runMachine(t *testing.T, h Harness) {}
