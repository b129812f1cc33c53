package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencepost/fencepost/migrations"
)

// checkTimeout bounds one answer of /readyz.
const checkTimeout = 2 * time.Second

// readiness collects why the node cannot work. Checks are added while it starts.
type readiness struct {
	mu     sync.Mutex
	state  string // "starting", "" while it runs, "stopping"
	names  []string
	checks map[string]func(context.Context) error
	// details are what a part says of itself to whoever asks for more.
	details map[string]func() map[string]any
}

func (r *readiness) set(state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
}

// running reports whether all parts are there: until then they may be read by nobody but the start.
func (r *readiness) running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == ""
}

func (r *readiness) add(name string, check func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = append(r.names, name)
	r.checks[name] = check
}

func (r *readiness) detail(name string, of func() map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.details == nil {
		r.details = map[string]func() map[string]any{}
	}
	r.details[name] = of
}

// report is the answer of /readyz.
type report struct {
	Ready  bool              `json:"ready"`
	State  string            `json:"state"` // starting, running, stopping
	Roles  []Role            `json:"roles"`
	Checks map[string]string `json:"checks"`          // "ok", or why not
	Parts  []part            `json:"parts,omitempty"` // the same with what more there is to say, for ?verbose
}

// part is one check.
type part struct {
	Name    string         `json:"part"`
	Ready   bool           `json:"ready"`
	Error   string         `json:"error,omitempty"`
	Seconds float64        `json:"seconds"` // that the check took
	Detail  map[string]any `json:"detail,omitempty"`
}

// report runs the checks side by side.
func (r *readiness) report(ctx context.Context, roles []Role) report {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r.mu.Lock()
	answer := report{Ready: r.state == "", State: r.state, Roles: roles, Checks: map[string]string{}, Parts: make([]part, len(r.names))}
	var wg sync.WaitGroup
	for i, name := range r.names {
		check, detail := r.checks[name], r.details[name]
		wg.Go(func() {
			began := time.Now()
			p := part{Name: name, Ready: true}
			if err := check(ctx); err != nil {
				p.Ready, p.Error = false, err.Error()
			}
			p.Seconds = time.Since(began).Seconds()
			if detail != nil {
				p.Detail = detail()
			}
			answer.Parts[i] = p
		})
	}
	r.mu.Unlock()
	wg.Wait()
	if answer.State == "" {
		answer.State = "running"
	}
	for _, p := range answer.Parts {
		answer.Checks[p.Name] = "ok"
		if !p.Ready {
			answer.Checks[p.Name], answer.Ready = p.Error, false
		}
	}
	return answer
}

var errStandby = errors.New("the database can only be read: it is a standby")

const standbySQL = `select pg_is_in_recovery()`

// checkStore is nil when every role could read and write: the database answers, the schema is ours, and it is no standby,
// which an address may lead to after a failover.
func (n *Node) checkStore(ctx context.Context) error {
	if err := migrations.Check(ctx, n.store.Pool()); err != nil {
		return err
	}
	var standby bool
	if err := n.store.Pool().QueryRow(ctx, standbySQL).Scan(&standby); err != nil {
		return err
	}
	if standby {
		return errStandby
	}
	return nil
}

// workerDetail is what a worker has in hand.
func (n *Node) workerDetail() map[string]any {
	partitions := []int32{}
	unsettled := 0
	for _, p := range n.worker.Partitions() {
		partitions = append(partitions, p.Partition)
		unsettled += p.InFlight
	}
	detail := map[string]any{"name": n.name, "partitions": partitions, "unsettled_records": unsettled}
	if n.config.Gate != nil {
		// An open breaker leaves the worker ready: another one would be refused by the same provider.
		detail["breaker"] = n.config.Gate.State().Reason
	}
	return detail
}
