package bench

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/fencepost/fencepost/e2e/procs"
)

func TestMain(m *testing.M) {
	code := procs.Main(m).Run()
	if serverStarted {
		if s, err := server(); err == nil {
			if err := s.Stop(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			_ = os.RemoveAll(serverDir)
		}
	}
	os.Exit(code)
}
