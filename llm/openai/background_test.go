package openai_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
)

// quick is a way to recover that waits for next to nothing.
func quick(kind llm.Recovery) llm.RecoveryConfig {
	return llm.RecoveryConfig{Kind: kind, SettleDelay: time.Hour, PollEvery: time.Millisecond}
}

const (
	begins  = "POST /v1/responses"
	looks   = "GET /v1/responses/resp_1"
	resumes = looks + "?stream=true&starting_after="
	cancels = "POST /v1/responses/resp_1/cancel"
)

// reply is what the server does to one request: an answer, or a death behind what it has of one.
type reply struct {
	status int
	body   string
	events []string
	dies   bool
}

func (r reply) send(w http.ResponseWriter) {
	switch {
	case r.events != nil:
		answerEvents(w, r.events...)
	case r.status != 0:
		answerJSON(w, r.status, r.body)
	}
	if r.dies {
		die()
	}
}

var (
	running = reply{status: 200, body: response("in_progress", `,"output":[],"usage":null`)}
	waits   = reply{status: 200, body: response("queued", `,"output":[],"usage":null`)}
	done    = reply{status: 200, body: completed("hello")}
	unknown = reply{status: 404, body: `{"error":{"message":"no such response","code":"not_found"}}`}
	busy    = reply{status: 503, body: `{"error":{"message":"later"}}`}
)

// backgroundServer answers the POST once, each look and each resumption in turn (the last one again and again).
func backgroundServer(t testing.TB, post reply, looking, resuming []reply, cancel reply) *scripted {
	var looked, resumed atomic.Int64
	next := func(w http.ResponseWriter, of []reply, n *atomic.Int64) {
		if len(of) == 0 {
			unknown.send(w)
			return
		}
		of[min(int(n.Add(1)), len(of))-1].send(w)
	}
	return serve(t, func(w http.ResponseWriter, r asked) {
		switch {
		case r.what == begins:
			post.send(w)
		case r.what == looks:
			next(w, looking, &looked)
		case strings.HasPrefix(r.what, resumes):
			next(w, resuming, &resumed)
		case r.what == cancels:
			cancel.send(w)
		}
	})
}

// A response in the background comes to its end over a connection that dies at any stage, by one POST.
func TestI5_BackgroundIsOneGeneration(t *testing.T) {
	stream := func(events ...string) reply { return reply{events: events} }
	dead := func(events ...string) reply { return reply{events: events, dies: true} }
	end := ending(completed("hello"))
	for _, c := range []struct {
		name              string
		post              reply
		looking, resuming []reply
		noted             string
		class             llm.Class // "": hello
		told              string
		resumed           int
	}{
		{"streamed whole", stream(created, pieceHel, pieceLo, end), nil, nil, "resp_1", "", "hel|lo", 0},
		{"streamed, dies behind created", dead(created), []reply{running}, []reply{stream(pieceHel, pieceLo, end)}, "resp_1", "", "hel|lo", 1},
		{"streamed, dies in the text", dead(created, pieceHel), []reply{running}, []reply{stream(pieceLo, end)}, "resp_1", "", "hel|lo", 1},
		{"streamed, dies twice", dead(created), []reply{running}, []reply{dead(pieceHel), stream(pieceLo, end)}, "resp_1", "", "hel|lo", 2},
		{"streamed, ends too early", stream(created, pieceHel), []reply{running}, []reply{stream(pieceLo, end)}, "resp_1", "", "hel|lo", 1},
		{"streamed, garbage in it", stream(created, pieceHel, "x"), []reply{running}, []reply{stream(pieceLo, end)}, "resp_1", "", "hel|lo", 1},
		{"streamed, an error of the stream", stream(created, pieceHel, `{"type":"error","code":"server_error","message":"m"}`), []reply{done}, nil, "resp_1", "", "hel", 0},
		{"streamed, dead, done meanwhile", dead(created, pieceHel), []reply{done}, nil, "resp_1", "", "hel", 0},
		{"streamed, dead, cannot be resumed", dead(created, pieceHel), []reply{running, running, running, done}, []reply{{status: 400, body: `{}`}}, "resp_1", "", "hel", 1},
		{"streamed, dead, resumes and brings nothing", dead(created), []reply{running, running, running, done}, []reply{dead()}, "resp_1", "", "", 1},
		{"streamed, dead, looks die", dead(created), []reply{{dies: true}, busy, running}, []reply{stream(pieceHel, pieceLo, end)}, "resp_1", "", "hel|lo", 1},
		{"streamed, dead, not shown yet", dead(created), []reply{unknown, unknown, done}, nil, "resp_1", "", "", 0},
		{"streamed, dead, failed meanwhile", dead(created), []reply{{status: 200, body: response("failed", `,"error":{"code":"rate_limit_exceeded","message":"m"}`)}}, nil, "resp_1", llm.RateLimited, "", 0},
		{"asked for", reply{status: 200, body: waits.body}, []reply{waits, running, running, done}, nil, "resp_1", "", "", 0},
		{"asked for, something in between speaks", waits, []reply{{status: 200, body: "<html>"}, {status: 200, body: "null"}, busy, done}, nil, "resp_1", "", "", 0},
		{"not known to the server", done, nil, nil, "resp_1", "", "", 0},
		{"dies before anything", reply{dies: true}, nil, nil, "", llm.Ambiguous, "", 0},
		{"dies behind the header", dead([]string{}...), nil, nil, "", llm.Ambiguous, "", 0},
		{"no id", reply{status: 200, body: `{"status":"queued"}`}, nil, nil, "", llm.Ambiguous, "", 0},
		{"an id that would be another path", reply{status: 200, body: `{"id":"../files","status":"queued"}`}, nil, nil, "", llm.Ambiguous, "", 0},
		{"refused", reply{status: 429, body: `{"error":{"code":"rate_limit_exceeded"}}`}, nil, nil, "", llm.RateLimited, "", 0},
		{"looks are refused", dead(created), []reply{{status: 401, body: `{}`}}, nil, "resp_1", llm.Ambiguous, "", 0},
		{"looks are never answered", dead(created), []reply{busy}, nil, "resp_1", llm.Ambiguous, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.post.events == nil && c.name == "dies behind the header" {
				c.post.events = []string{}
			}
			s := backgroundServer(t, c.post, c.looking, c.resuming, unknown)
			streamed := c.post.events != nil
			r := newResponses(t, s, openai.Config{Stream: streamed, Recovery: quick(llm.RecoverBackground)})
			var told []string
			noted, looked := "", 0
			req := llm.Request{Model: "m", Content: "c", Op: "op-1",
				Text: func(piece string) { told = append(told, piece) },
				Noted: func(_ context.Context, ref string) error {
					noted, looked = noted+ref, s.asks(looks)
					return nil
				}}
			a, err := r.Call(context.Background(), req)
			report := a.Report
			if c.class == "" {
				if err != nil || a.Text != "hello" || a.Usage == nil || a.Model != "m-1" {
					t.Fatalf("%+v, %v", a, err)
				}
			} else {
				var f *llm.Failure
				if !errors.As(err, &f) || f.Class != c.class || a.Text != "" {
					t.Fatalf("%+v, %v; want %s", a, err, c.class)
				}
				report = f.Report
			}
			if noted != c.noted || looked != 0 || strings.Join(told, "|") != c.told {
				t.Errorf("noted %q after %d look-ups, told %q", noted, looked, told)
			}
			if report.WireRequests != 1 || s.asks(begins) != 1 || report.Lookups != s.asks("GET") || s.asks(resumes) != c.resumed {
				t.Errorf("%+v; at the server %d POSTs, %d look-ups, %d of them resume", report, s.asks("POST"), s.asks("GET"), s.asks(resumes))
			}
			if streamed && c.resumed > 0 && c.name == "streamed, dies in the text" && s.asks(resumes+"4") != 1 {
				t.Error("not resumed behind the last event")
			}
			if s.asks("GET") > 0 && s.last(t, "GET").header.Get("Authorization") != "Bearer "+key {
				t.Error("a look-up without the key")
			}
		})
	}
}

// A call whose context ends is cancelled at the provider, unless another process takes it up.
func TestBackgroundIsCancelled(t *testing.T) {
	stopped := errors.New("the task was cancelled")
	usage := strings.Replace(response("cancelled", `,"output":[],`+counts), "m-1", "m-2", 1)
	for _, c := range []struct {
		name    string
		cause   error
		cancel  reply
		cancels int
		class   llm.Class
		usage   bool
	}{
		{"with its usage", stopped, reply{status: 200, body: usage}, 1, llm.Cancelled, true},
		{"without", stopped, reply{status: 200, body: response("cancelled", `,"usage":null`)}, 1, llm.Cancelled, false},
		{"refused", stopped, reply{status: 409, body: `{"error":{"message":"cannot"}}`}, 1, llm.Cancelled, false},
		{"dead", stopped, reply{dies: true}, 1, llm.Cancelled, false},
		{"too late", stopped, done, 1, "", true},
		{"too late, and cut", stopped, reply{status: 200, body: response("incomplete", `,"output":[`+message("hello")+`],"incomplete_details":{"reason":"max_output_tokens"},`+counts)}, 1, "", true},
		{"handed on", errors.Join(stopped, llm.ErrHandedOn), done, 0, llm.Cancelled, false},
		{"its time is over", context.DeadlineExceeded, reply{status: 200, body: usage}, 1, llm.Ambiguous, true},
	} {
		for _, recovering := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: "/recovering"}[recovering], func(t *testing.T) {
				s := backgroundServer(t, waits, []reply{running}, nil, c.cancel)
				ctx, cancel := context.WithCancelCause(context.Background())
				timed := errors.Is(c.cause, context.DeadlineExceeded)
				if timed {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, 100*time.Millisecond)
					defer stop()
				}
				finished := make(chan struct{})
				go func() {
					defer close(finished)
					for s.asks(looks) < 2 {
						time.Sleep(time.Millisecond)
					}
					if !timed {
						cancel(c.cause)
					}
				}()
				r := newResponses(t, s, openai.Config{Recovery: quick(llm.RecoverBackground)})
				var a llm.Answer
				var err error
				sent := 1
				if recovering {
					sent = 0
					a, err = r.Recover(ctx, llm.Request{Model: "m", Content: "c"}, llm.Lost{Ref: "resp_1"})
				} else {
					a, err = r.Call(ctx, llm.Request{Model: "m", Content: "c"})
				}
				<-finished
				cancel(nil)
				report := a.Report
				var f *llm.Failure
				if c.class == "" {
					if err != nil || a.Text != "hello" {
						t.Fatalf("%+v, %v", a, err)
					}
				} else {
					if !errors.As(err, &f) || f.Class != c.class || !errors.Is(err, c.cause) || errors.Is(err, llm.ErrNoTrace) {
						t.Fatalf("%+v, %v", a, err)
					}
					report = f.Report
				}
				if (report.Usage != nil) != c.usage || report.WireRequests != sent || s.asks(begins)-s.asks(cancels) != sent {
					t.Errorf("%+v", report)
				}
				if s.asks(cancels) != c.cancels || report.Lookups != s.asks(looks)+c.cancels {
					t.Errorf("%d cancelled, %d look-ups, %+v", s.asks(cancels), s.asks(looks), report)
				}
			})
		}
	}
}

// A call's own timeout covers the whole of it, not only the connection that began it.
func TestBackgroundTimesOut(t *testing.T) {
	s := backgroundServer(t, waits, []reply{running}, nil, unknown)
	r := newResponses(t, s, openai.Config{Timeout: 50 * time.Millisecond, Recovery: quick(llm.RecoverBackground)})
	_, err := r.Call(context.Background(), llm.Request{Model: "m", Content: "c"})
	var f *llm.Failure
	if !errors.As(err, &f) || f.Class != llm.Ambiguous || !errors.Is(err, llm.ErrTimeout) || s.asks(cancels) != 1 {
		t.Fatalf("%+v", err)
	}
}

// What cannot be made durable is not left running: nobody would find it.
func TestBackgroundThatCannotBeNoted(t *testing.T) {
	for _, post := range []reply{waits, {events: []string{created, pieceHel, ending(completed("hello"))}}} {
		s := backgroundServer(t, post, []reply{running}, nil, reply{status: 200, body: response("cancelled", ","+counts)})
		r := newResponses(t, s, openai.Config{Stream: post.events != nil, Recovery: quick(llm.RecoverBackground)})
		down := errors.New("the database is down")
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		for _, lost := range []bool{false, true} {
			a, err := r.Call(ctx, llm.Request{Model: "m", Content: "c", Noted: func(context.Context, string) error {
				if lost {
					cancel(errors.Join(down, llm.ErrHandedOn)) // nobody can take up what was not noted
				}
				return down
			}})
			var f *llm.Failure
			want := map[bool]llm.Class{false: llm.Ambiguous, true: llm.Cancelled}[lost]
			if !errors.As(err, &f) || f.Class != want || !errors.Is(err, down) || a.Text != "" || f.WireRequests != 1 || f.Usage == nil || f.Lookups != 1 {
				t.Fatalf("%+v, %+v", a, err)
			}
			if got, want := s.asks(cancels), map[bool]int{false: 1, true: 2}[lost]; got != want || s.asks("GET") != 0 {
				t.Errorf("%d cancelled", got)
			}
		}
	}
}

// What became of a lost response is asked, and only asked.
func TestRecoverBackground(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name    string
		lost    llm.Lost
		looking []reply
		class   llm.Class // "": hello
		noTrace bool
		usage   bool
		asks    int // -1: any number above 1
	}{
		{"done", llm.Lost{Ref: "resp_1", Age: 2 * hour}, []reply{done}, "", false, true, 1},
		{"runs on", llm.Lost{Ref: "resp_1", Age: 2 * hour}, []reply{waits, running, done}, "", false, true, 3},
		{"not shown yet", llm.Lost{Ref: "resp_1"}, []reply{unknown, unknown, done}, "", false, true, 3},
		{"busy", llm.Lost{Ref: "resp_1"}, []reply{busy, {dies: true}, busy, done}, "", false, true, 4},
		{"unknown", llm.Lost{Ref: "resp_1", Age: 2 * hour}, []reply{unknown}, llm.Ambiguous, true, false, 1},
		{"never learned", llm.Lost{Op: "op-1"}, []reply{done}, llm.Ambiguous, true, false, 0},
		{"no id", llm.Lost{Ref: "../files"}, []reply{done}, llm.Ambiguous, true, false, 0},
		{"too old", llm.Lost{Ref: "resp_1", Age: 40 * 24 * hour}, []reply{done}, llm.Ambiguous, true, false, 0},
		{"failed", llm.Lost{Ref: "resp_1"}, []reply{{status: 200, body: response("failed", `,"error":{"code":"server_error","message":"m"},`+counts)}}, llm.Ambiguous, true, true, 1},
		{"failed for its rate", llm.Lost{Ref: "resp_1"}, []reply{{status: 200, body: response("failed", `,"error":{"code":"rate_limit_exceeded","message":"m"}`)}}, llm.RateLimited, false, false, 1},
		{"failed for money", llm.Lost{Ref: "resp_1"}, []reply{{status: 200, body: response("failed", `,"error":{"code":"server_error","message":"You exceeded your current quota"}`)}}, llm.Quota, false, false, 1},
		{"cancelled", llm.Lost{Ref: "resp_1"}, []reply{{status: 200, body: response("cancelled", ","+counts)}}, llm.Ambiguous, true, true, 1},
		{"refused output", llm.Lost{Ref: "resp_1"}, []reply{{status: 200, body: response("completed", `,"output":[],`+counts)}}, llm.RejectedOutput, false, true, 1},
		{"the question is refused", llm.Lost{Ref: "resp_1"}, []reply{{status: 401, body: `{}`}}, llm.NotSent, false, false, 1},
		{"the question is never answered", llm.Lost{Ref: "resp_1"}, []reply{busy}, llm.NotSent, false, false, -1},
		{"the question is answered by another", llm.Lost{Ref: "resp_1"}, []reply{{status: 200, body: "<html>"}}, llm.NotSent, false, false, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				s := backgroundServer(t, done, c.looking, nil, unknown)
				a, err := newResponses(t, s, openai.Config{Stream: stream, Recovery: quick(llm.RecoverBackground)}).
					Recover(context.Background(), llm.Request{Model: "m", Content: "c"}, c.lost)
				report := a.Report
				if c.class == "" {
					if err != nil || a.Text != "hello" || a.RequestID != "resp_1" {
						t.Fatalf("%+v, %v", a, err)
					}
				} else {
					var f *llm.Failure
					if !errors.As(err, &f) || f.Class != c.class || errors.Is(err, llm.ErrNoTrace) != c.noTrace {
						t.Fatalf("%+v, %v; want %s", a, err, c.class)
					}
					report = f.Report
				}
				asks := s.asks("GET")
				if s.asks("POST") != 0 || report.WireRequests != 0 || report.Lookups != asks || (report.Usage != nil) != c.usage {
					t.Errorf("%d POSTs, %+v", s.asks("POST"), report)
				}
				if c.asks >= 0 && asks != c.asks || c.asks < 0 && (asks < 2 || asks > 20) {
					t.Errorf("asked %d times", asks)
				}
			}
		})
	}
}
