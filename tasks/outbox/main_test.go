package outbox_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(broker.Main(m), pgtest.IgnoreServer()) }
