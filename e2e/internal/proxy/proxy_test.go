package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func listen(t *testing.T, protocol Protocol, target string) *Proxy {
	t.Helper()
	p, err := Listen(protocol, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// echo is a server that says what it hears.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// hears sends a word and reports whether it comes back in time.
func hears(c net.Conn, word string, within time.Duration) error {
	if word != "" {
		if _, err := io.WriteString(c, word); err != nil {
			return err
		}
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	b := make([]byte, 4)
	_, err := io.ReadFull(c, b)
	return err
}

const long, short = 10 * time.Second, 100 * time.Millisecond

func TestHoldDeliversLaterAndDropNever(t *testing.T) {
	p := listen(t, Raw, echo(t))
	for _, d := range []Direction{ToServer, ToClient} {
		c := dial(t, p)
		if err := hears(c, "one.", long); err != nil {
			t.Fatal(err)
		}
		p.Set(d, Hold)
		if err := hears(c, "two.", short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("held: %v", err)
		}
		p.Set(d, Pass)
		if err := hears(c, "", long); err != nil {
			t.Errorf("not delivered later: %v", err)
		}
		p.Set(d, Drop)
		if err := hears(c, "tri.", short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("swallowed: %v", err)
		}
		p.Set(d, Pass)
		if err := hears(c, "four", short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a stream with a hole goes on: %v", err)
		}
		if err := hears(dial(t, p), "five", long); err != nil {
			t.Errorf("a new connection: %v", err)
		}
	}
}

func TestCutAndRefuse(t *testing.T) {
	p := listen(t, Raw, echo(t))
	c := dial(t, p)
	if err := hears(c, "one.", long); err != nil {
		t.Fatal(err)
	}
	p.Refuse(true)
	if refused, err := net.Dial("tcp", p.Addr()); err == nil {
		if err := hears(refused, "two.", long); err == nil {
			t.Error("a new connection is served")
		}
		refused.Close()
	}
	if err := hears(c, "tri.", long); err != nil {
		t.Errorf("a present connection: %v", err)
	}
	p.Cut()
	if err := hears(c, "four", long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cut: %v", err)
	}
	p.Heal()
	if err := hears(dial(t, p), "five", long); err != nil {
		t.Errorf("healed: %v", err)
	}
}

// once applies an action to the first request of a name.
func once(name string, action Action) (Rule, chan struct{}) {
	done := make(chan struct{}, 1)
	return func(request string) Action {
		if request != name {
			return Forward
		}
		select {
		case done <- struct{}{}:
			return action
		default:
			return Forward
		}
	}, done
}

func TestPostgresAnswersAreLostAfterTheirEffect(t *testing.T) {
	url := pgtest.URL(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	direct, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(ctx)
	if _, err := direct.Exec(ctx, "create table seen (n int)"); err != nil {
		t.Fatal(err)
	}
	p := listen(t, Postgres, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
	const insert = "insert into seen values ($1)"
	for _, c := range []struct {
		name   string
		action Action
		want   int
	}{{insert, LoseRequest, 0}, {insert, LoseAnswer, 1}, {"commit", LoseRequest, 0}, {"commit", LoseAnswer, 1}} {
		through := config.Copy()
		host, port, _ := net.SplitHostPort(p.Addr())
		through.Host, through.Port, through.TLSConfig, through.Fallbacks = host, atoi(port), nil, nil
		conn, err := pgx.ConnectConfig(ctx, through)
		if err != nil {
			t.Fatal(err)
		}
		// A statement that was prepared before is known by its text, too.
		if _, err := conn.Exec(ctx, insert, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := direct.Exec(ctx, "delete from seen"); err != nil {
			t.Fatal(err)
		}
		rule, done := once(c.name, c.action)
		p.Rule(rule)
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if c.name == "commit" {
				_, err := tx.Exec(ctx, insert, 1)
				return err
			}
			return nil
		})
		if c.name == insert {
			_, err = conn.Exec(ctx, insert, 1)
		}
		if err == nil || len(done) != 1 {
			t.Errorf("%+v: the client is told %v", c, err)
		}
		conn.Close(ctx)
		var n int
		if err := direct.QueryRow(ctx, "select count(*) from seen").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != c.want {
			t.Errorf("%+v: %d rows", c, n)
		}
		p.Heal()
	}
}

func TestKafkaLeadsBackToTheProxyAndLosesAnswersAfterTheirEffect(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := listen(t, Kafka, cluster.ListenAddrs()[0])
	// Without retries, so that what is lost stays lost.
	through, err := kgo.NewClient(kgo.SeedBrokers(p.Addr()), kgo.RequestRetries(0), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer through.Close()
	admin := kadm.NewClient(through)
	brokers, err := admin.ListBrokers(ctx)
	if err != nil || len(brokers) != 1 {
		t.Fatal(brokers, err)
	}
	host, port, _ := net.SplitHostPort(p.Addr())
	if brokers[0].Host != host || brokers[0].Port != int32(atoi(port)) {
		t.Errorf("the broker is said to be at %s:%d, the proxy is at %s", brokers[0].Host, brokers[0].Port, p.Addr())
	}
	directClient, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer directClient.Close()
	direct := kadm.NewClient(directClient)
	commit := func(at int64) error {
		o := kadm.Offsets{}
		o.Add(kadm.Offset{Topic: "t", Partition: 0, At: at, LeaderEpoch: -1})
		set, err := admin.CommitOffsets(ctx, "g", o)
		if err != nil {
			return err
		}
		return set.Error()
	}
	if err := commit(1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		action Action
		at     int64
		want   int64
	}{{LoseRequest, 2, 1}, {LoseAnswer, 3, 3}} {
		rule, done := once("OffsetCommit", c.action)
		p.Rule(rule)
		if err := commit(c.at); err == nil || len(done) != 1 {
			t.Errorf("%+v: the client is told %v", c, err)
		}
		offsets, err := direct.FetchOffsets(ctx, "g")
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := offsets.Lookup("t", 0); o.At != c.want {
			t.Errorf("%+v: the group is at %d", c, o.At)
		}
		p.Rule(nil)
	}
}

func atoi(s string) uint16 {
	n, _ := strconv.ParseUint(s, 10, 16)
	return uint16(n)
}
