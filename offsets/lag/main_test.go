package lag

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/e2e/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(broker.Main(m)) }
