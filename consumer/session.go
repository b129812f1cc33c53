package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/offsets"
)

// session is one membership of the group with a client of its own. When the group has dropped us, whatever the way, the
// session ends and the next one begins from the committed positions: state of a lost membership is not mended.
type session struct {
	c      *Consumer
	client *kgo.Client
	// built is closed when client is set. The client joins the group while it is being made, so that a callback may come
	// before NewClient has returned; each waits for it.
	built chan struct{}
	ctx   context.Context
	end   context.CancelCauseFunc
	// cut ends the client's requests. A join under way, which the client waits for when it is closed, can wait for others
	// of the group for as long as a rebalance may take.
	cut context.CancelFunc

	// Guarded by Consumer.mu.
	member      string // the member id under which the present assignments were acquired; "" with none
	assignments map[partitionKey]*assignment
	joined      bool

	pulse pulse

	commitToken chan struct{} // held by whoever commits: at most one commit is in flight
}

type partitionKey struct {
	topic     string
	partition int32
}

var (
	errMemberChanged = errors.New("the group has given us a new member id: what was assigned before is lost")
	errLogCut        = errors.New("the log was cut back below what was read")
	errFenced        = errors.New("another worker has taken the ownership of a partition")
	errInstanceTaken = errors.New("another process has joined the group with this instance id; give each worker its own")
	errNotOwner      = errors.New("the group refused a commit: this member is no longer in it")
)

func (c *Consumer) newSession(ctx context.Context) (*session, error) {
	s := &session{c: c, assignments: map[partitionKey]*assignment{}, commitToken: make(chan struct{}, 1), built: make(chan struct{})}
	s.ctx, s.end = context.WithCancelCause(ctx)
	requests, cut := context.WithCancel(context.Background())
	s.cut = cut
	s.pulse.now = c.now
	s.pulse.heard.Store(c.now())
	opts := append(append([]kgo.Opt{}, c.cfg.Kafka...),
		kgo.WithContext(requests),
		kgo.ConsumerGroup(c.cfg.Group),
		kgo.ConsumeTopics(c.cfg.Topic),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(c.cfg.SessionTimeout),
		kgo.HeartbeatInterval(c.cfg.SessionTimeout/5),
		kgo.RebalanceTimeout(c.cfg.RebalanceTimeout),
		// Explicit, since the client's own default differs between versions, and AtEnd would skip what survives.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // a marker is a record like any other, or lag would stay above 0 behind one
		// A newly assigned partition joins only the next fetch, so this is its first delay.
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMaxBytes(8<<20),
		kgo.FetchMaxPartitionBytes(256<<10), // what a pause throws away and reads again
		kgo.MetadataMaxAge(time.Minute),
		kgo.MetadataMinAge(250*time.Millisecond),
		kgo.WithHooks(&s.pulse),
		kgo.OnPartitionsAssigned(s.onAssigned),
		kgo.OnPartitionsRevoked(s.onRevoked),
		kgo.OnPartitionsLost(s.onLost),
		kgo.AdjustFetchOffsetsFn(s.onOffsets),
	)
	switch c.cfg.Protocol {
	case ProtocolConsumer:
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	default:
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if c.cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(c.cfg.InstanceID))
	}
	client, err := kgo.NewClient(append(opts, c.positions.Opts()...)...)
	if err != nil {
		cut()
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	s.client = client
	c.positions.Bind(client)
	close(s.built)
	return s, nil
}

// run polls and commits until ctx is done, which drains, or the session is lost.
func (s *session) run() error {
	c := s.c
	commits := make(chan struct{})
	go func() {
		defer close(commits)
		s.runCommits()
	}()
	s.poll()
	<-commits

	err := context.Cause(s.ctx)
	if c.soft.Err() != nil {
		s.drain(c.soft, s.all())
		err = nil
	}
	c.mu.Lock()
	for _, a := range s.assignments {
		s.retire(a)
	}
	c.session = nil
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.client.LeaveGroupContext(ctx); err != nil {
		c.log.Warn("could not leave the group; its session timeout will", "error", err)
	}
	s.cut()
	s.client.Close()
	return err
}

func (s *session) onAssigned(_ context.Context, cl *kgo.Client, assigned map[string][]int32) {
	<-s.built
	c := s.c
	member, generation := cl.GroupMetadata()
	c.metrics.rebalances.WithLabelValues("assigned").Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.member != "" && s.member != member {
		// The client rejoined by itself and kept its cursors; someone else may have worked and committed meanwhile.
		s.end(errMemberChanged)
		for _, a := range s.assignments {
			s.retire(a)
		}
		return
	}
	s.member, s.joined = member, true
	for topic, partitions := range assigned {
		for _, p := range partitions {
			key := partitionKey{topic, p}
			if old := s.assignments[key]; old != nil {
				s.retire(old)
			}
			s.assignments[key] = &assignment{
				topic: topic, partition: p, member: member, session: s,
				tracker: offsets.NewTracker(), lanes: map[uint64]*lane{}, first: -1, behind: -1,
				committed: offsets.Position{Offset: -1, LeaderEpoch: -1}, said: time.Now(), logEnd: -1,
			}
		}
	}
	c.log.Info("partitions assigned", "assigned", assigned, "owned", len(s.assignments), "member", member, "generation", generation)
}

// onRevoked drains: started work is waited for while the other partitions flow, then the positions are committed.
func (s *session) onRevoked(ctx context.Context, _ *kgo.Client, revoked map[string][]int32) {
	<-s.built
	s.c.metrics.rebalances.WithLabelValues("revoked").Inc()
	s.drain(ctx, s.of(revoked))
	s.c.log.Info("partitions revoked", "revoked", revoked)
}

// onLost gives up at once and commits nothing: the partitions may have a new owner already.
func (s *session) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	<-s.built
	c := s.c
	c.metrics.rebalances.WithLabelValues("lost").Inc()
	list := s.of(lost)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range list {
		s.retire(a)
	}
	if len(s.assignments) == 0 {
		s.member = ""
	}
	if len(list) > 0 {
		c.log.Warn("partitions lost", "lost", lost)
	}
}

// drain waits for what is started on the given partitions, commits and retires them.
func (s *session) drain(ctx context.Context, list []*assignment) {
	if len(list) == 0 {
		return
	}
	c := s.c
	idle := make([]<-chan struct{}, 0, len(list))
	c.mu.Lock()
	for _, a := range list {
		c.dropParked(a)
		a.ready.each(c.withdraw) // they begin elsewhere, and a drain may take long
		idle = append(idle, a.drain())
	}
	c.mu.Unlock()

	begin := time.Now()
	timeout := time.NewTimer(c.cfg.DrainTimeout)
	defer timeout.Stop()
wait:
	for _, ch := range idle {
		select {
		case <-ch:
		case <-timeout.C:
			c.log.Warn("drain timed out; what is still running goes on under its leases", "timeout", c.cfg.DrainTimeout)
			c.metrics.drainTimeouts.Inc()
			break wait
		}
	}
	c.log.Debug("drained", "partitions", len(list), "took", time.Since(begin))
	s.commit(context.WithoutCancel(ctx), list)

	c.mu.Lock()
	for _, a := range list {
		s.retire(a)
	}
	c.mu.Unlock()
}

// retire ends an assignment: nothing that comes back moves its tracker, and nothing of it is committed. With c.mu held.
func (s *session) retire(a *assignment) {
	if a.dead {
		return
	}
	a.dead = true
	s.c.dropParked(a)
	a.ready.each(s.c.withdraw)
	a.lanes, a.ready = nil, fair{}
	delete(s.assignments, partitionKey{a.topic, a.partition})
	if a.paused {
		// A pause outlives the assignment in the client, and would silence the partition when it comes back.
		s.client.ResumeFetchPartitions(map[string][]int32{a.topic: {a.partition}})
	}
}

func (s *session) of(partitions map[string][]int32) []*assignment {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	var list []*assignment
	for topic, ps := range partitions {
		for _, p := range ps {
			if a := s.assignments[partitionKey{topic, p}]; a != nil {
				list = append(list, a)
			}
		}
	}
	return list
}

func (s *session) all() []*assignment {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	list := make([]*assignment, 0, len(s.assignments))
	for _, a := range s.assignments {
		list = append(list, a)
	}
	return list
}
