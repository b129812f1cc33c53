package migrations_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()) }
