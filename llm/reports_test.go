package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fencepost/fencepost/llm"
)

// The failure reports of README.md, by their numbers: what clients of these APIs did wrong in public, and what is right.

// 1. Slow answers, a client's timeout and an SDK's retries: 2,103 paid for 369 saved.
func TestReport01_ATimeoutIsNotSentAgain(t *testing.T) {
	inAll(t, settings{timeout: 30 * time.Second}, func(c *call) {
		c.say = hang("")
		for range 10 {
			start := time.Now()
			f := c.fails(llm.Ambiguous, "timeout passed")
			if !errors.Is(f, llm.ErrTimeout) || !f.Class.MayBeCharged() || f.Usage != nil || time.Since(start) != 30*time.Second {
				c.Errorf("%+v after %v", f, time.Since(start))
			}
		}
		if c.generations() != 10 {
			c.Errorf("%d generations of 10 calls", c.generations())
		}
	})
}

// 2. A POST that landed and timed out was sent again: the user's turn was there twice.
func TestReport02_ALostAnswerIsNotAskedForAgain(t *testing.T) {
	inAll(t, settings{}, func(c *call) {
		c.say = always("")
		c.fails(llm.Ambiguous, "no complete answer")
		if got := c.last(); !json.Valid([]byte(got.body)) || got.header.Get("Idempotency-Key") != "" || c.connections() != 1 {
			c.Errorf("%+v over %d connections", got, c.connections())
		}
	})
}

// 3. "The connection failed" was taken for "nothing was sent".
func TestReport03_OnlyWhatIsProvablyUnsentIsFree(t *testing.T) {
	inAll(t, settings{}, func(c *call) {
		c.say = always("") // the whole request was read
		f := c.fails(llm.Ambiguous, "")
		if !f.Class.MayBeCharged() || f.WireRequests != 1 {
			c.Errorf("%+v", f)
		}
	})
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	inAll(t, settings{http: llm.TransportConfig{Dial: refused}}, func(c *call) {
		f := c.fails(llm.NotSent, "refused")
		if f.Class.MayBeCharged() || !f.Class.Retryable() || f.WireRequests != 0 {
			c.Errorf("%+v", f)
		}
	})
}

// 4. Retries in every layer: 12 to 36 requests for one refusal.
func TestReport04_OneLayerRetries(t *testing.T) {
	inAll(t, settings{}, func(c *call) {
		c.say = always(reply(429, c.refusal("rate_limit_error", "rate_limit_exceeded", "slow down"), "Retry-After: 1", "X-Should-Retry: true"))
		start := time.Now()
		for range 5 {
			c.fails(llm.RateLimited, "slow down")
		}
		if c.generations() != 5 || time.Since(start) != 0 {
			c.Errorf("%d requests of 5 calls, which waited for %v", c.generations(), time.Since(start))
		}
	})
}

// 5. The zero value of a setting meant the SDK's two retries.
func TestReport05_TheZeroValueRetriesNothing(t *testing.T) {
	for _, status := range []int{408, 409, 500, 502, 503, 504, 529} {
		inAll(t, settings{}, func(c *call) {
			c.say = always(reply(status, "{}"))
			if _, f := c.run(c.Context()); f == nil || f.WireRequests != 1 || c.generations() != 1 {
				c.Errorf("status %d: %+v, %d requests", status, f, c.generations())
			}
		})
	}
}

// 6. An exhausted quota was retried like a rate limit; one inside a failed background response for ever.
func TestReport06_QuotaIsNotARateLimit(t *testing.T) {
	inAll(t, settings{}, func(c *call) {
		c.say = always(reply(429, c.refusal("insufficient_quota", "insufficient_quota", "You exceeded your current quota"), "Retry-After: 1"))
		opensTheBreaker(c, c.fails(llm.Quota, "insufficient_quota"), "quota")
	})
	for _, streamed := range []bool{false, true} {
		in(t, formats[1], streamed, settings{recovery: llm.RecoveryConfig{Kind: llm.RecoverBackground}}, func(c *call) {
			failed := `{"id":"resp_1","status":"failed","error":{"code":"rate_limit_exceeded","message":"You exceeded your current quota, please check your plan"},"output":[],"usage":null}`
			c.say = func(_ int, req request, conn net.Conn) bool {
				switch created := `{"id":"resp_1","status":"queued","output":[]}`; {
				case req.method == "GET":
					_, _ = io.WriteString(conn, reply(200, failed))
				case streamed:
					_, _ = io.WriteString(conn, stream(endsWell, data(`{"type":"response.created","response":`+created+`}`, `{"type":"response.failed","response":`+failed+`}`)...))
				default:
					_, _ = io.WriteString(conn, reply(200, created))
				}
				return false
			}
			opensTheBreaker(c, c.fails(llm.Quota, "quota"), "quota")
		})
	}
}

// opensTheBreaker checks that no further call is admitted after f, and that it is said why.
func opensTheBreaker(c *call, f *llm.Failure, reason string) {
	c.Helper()
	if f.Class.Retryable() || f.Class.MayBeCharged() {
		c.Errorf("%s is retryable, or may be charged", f.Class)
	}
	g := llm.NewGate(llm.GateConfig{})
	if _, ok := g.Admit("w"); !ok {
		c.Fatal("not admitted")
	}
	g.Done("w", 0, f)
	if wait, ok := g.Admit("another"); ok || wait < 3*time.Second || g.State().Reason != reason || g.State().Message != f.Message {
		c.Errorf("admitted %v after %v: %+v", ok, wait, g.State())
	}
}

// 7. Anthropic's spend limits were read as bad requests, or as a pace, and the dead key was kept.
func TestReport07_ASpendLimitStopsTheCalls(t *testing.T) {
	for _, said := range []string{
		reply(400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2027-01-01 at 00:00 UTC."}}`),
		reply(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`),
		reply(402, `{"type":"error","error":{"type":"billing_error","message":"billing"}}`),
		reply(429, `{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}`),
		reply(429, `{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"contract_spend_limit_reached"}}}`, "Retry-After: 300"),
	} {
		for _, streamed := range []bool{false, true} {
			in(t, formats[2], streamed, settings{}, func(c *call) {
				c.say = always(said)
				opensTheBreaker(c, c.fails(llm.Quota, ""), "quota")
			})
		}
	}
}

// 8. Retry-After was dropped, ignored, capped to a failure, or slept through; or only the reset headers said it.
func TestReport08_RetryAfterIsAFloorAndNothingSleeps(t *testing.T) {
	for headers, want := range map[string]time.Duration{
		"Retry-After: 7":                             7 * time.Second,
		"Retry-After-Ms: 250":                        250 * time.Millisecond,
		"Retry-After: 600":                           10 * time.Minute,
		"Retry-After: 86400":                         llm.MaxRetryAfter, // it is put off, and asked again
		"Retry-After: Sat, 01 Jan 2000 00:01:00 GMT": time.Minute,       // simulated time begins in 2000
		"X-RateLimit-Remaining-Tokens: 0\r\nX-RateLimit-Reset-Tokens: 6m0s":                                     6 * time.Minute,
		"Anthropic-RateLimit-Requests-Remaining: 0\r\nAnthropic-RateLimit-Requests-Reset: 2000-01-01T00:00:30Z": 30 * time.Second,
	} {
		inAll(t, settings{}, func(c *call) {
			c.say = always(reply(429, "{}", headers))
			f := c.fails(llm.RateLimited, "")
			if f.RetryAfter != want || time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) != 0 {
				c.Errorf("%s: %v, slept until %v", headers, f.RetryAfter, time.Now())
			}
			g := llm.NewGate(llm.GateConfig{})
			g.Done("w", 0, f)
			if wait, ok := g.Admit("another worker"); ok || wait < want || g.Blocked() != want || g.State().Breaker != "closed" {
				c.Errorf("%s: another call waits for %v", headers, wait)
			}
		})
	}
}

// 9. A stream that ended cleanly, and too early, was a success. However it is cut: no half answer is one.
func TestReport09_HalfAStreamIsNoAnswer(t *testing.T) {
	for _, f := range formats {
		whole := strings.Join(f.events, "")
		complete := len(strings.Join(f.events[:f.enough], ""))
		for _, end := range []string{endsWell, closes, breaks} {
			t.Run(f.name+"/"+end, func(t *testing.T) {
				in(t, f, true, settings{}, func(c *call) {
					for n := range len(whole) + 1 {
						c.say = always(stream(end, whole[:n]))
						a, failure := c.run(c.Context())
						switch {
						case failure == nil && (n < complete || a.Text != "Hello" || a.FinishReason != "stop"):
							t.Fatalf("%d of %d bytes make %+v", n, len(whole), a)
						case failure != nil && failure.Class != llm.Ambiguous:
							t.Fatalf("%d bytes: %+v", n, failure)
						case failure != nil && n == len(whole):
							t.Fatalf("the whole stream: %+v", failure)
						}
					}
				})
			})
		}
	}
}

// 10. The opposite: a proxy cut right behind the stop reason, and the whole turn was tried again without an end.
func TestReport10_ACutBehindTheStopReasonIsAnAnswer(t *testing.T) {
	for i, ends := range [][]string{{endsWell, closes}, {endsWell, closes, breaks}, {endsWell, closes, breaks}} {
		for _, end := range ends {
			in(t, formats[i], true, settings{}, func(c *call) {
				c.say = always(stream(end, c.events[:c.enough]...))
				if a, f := c.run(c.Context()); f != nil || a.Text != "Hello" || (a.Usage == nil) != (c.name == "chat") {
					t.Errorf("%s, %s: %+v, %+v", c.name, end, a, f)
				}
			})
		}
	}
}

// 11. A stream stood still, and the call hung for 11 minutes. Silence is told from slowness; a total limit bounds both.
func TestReport11_SilenceEndsACallAndSlownessDoesNot(t *testing.T) {
	// every says the events one after the other, each after d.
	every := func(d time.Duration, events []string) func(int, request, net.Conn) bool {
		return func(_ int, _ request, conn net.Conn) bool {
			_, _ = io.WriteString(conn, streamHead+"Connection: close\r\n\r\n")
			for _, e := range events {
				time.Sleep(d)
				if _, err := io.WriteString(conn, e); err != nil {
					return false
				}
			}
			_, _ = io.Copy(io.Discard, conn)
			return false
		}
	}
	pings := make([]string, 10_000)
	for i := range pings {
		pings[i] = ": ping\n\n"
	}
	for _, f := range formats {
		slow := append(append([]string{}, f.events[:len(f.events)-1]...), append(pings[:30:30], f.events[len(f.events)-1])...)
		for _, c := range []struct {
			name string
			say  func(int, request, net.Conn) bool
			err  error
			took time.Duration
		}{
			{"nothing", hang(""), llm.ErrFirstToken, 90 * time.Second},
			{"a header", hang(streamHead + "\r\n"), llm.ErrFirstToken, 90 * time.Second},
			{"a beginning", hang(stream(breaks, f.events[:2]...)), llm.ErrIdle, time.Minute},
			{"a first token after 89 s, then one every 20 s", func(n int, r request, conn net.Conn) bool {
				time.Sleep(69 * time.Second)
				return every(20*time.Second, f.events)(n, r, conn)
			}, nil, 69*time.Second + time.Duration(len(f.events))*20*time.Second},
			{"ten minutes and more of work", every(20*time.Second, slow), nil, time.Duration(len(slow)) * 20 * time.Second},
			{"alive for ever", every(20*time.Second, append(f.events[:2:2], pings...)), llm.ErrTimeout, 20 * time.Minute},
		} {
			t.Run(f.name+"/"+c.name, func(t *testing.T) {
				in(t, f, true, settings{timeout: 20 * time.Minute}, func(got *call) {
					got.say = c.say
					start := time.Now()
					a, failure := got.run(got.Context())
					if c.err == nil && (failure != nil || a.Text != "Hello") || c.err != nil && (failure == nil || failure.Class != llm.Ambiguous || !errors.Is(failure, c.err)) {
						t.Errorf("%+v, %+v; want %v", a, failure, c.err)
					}
					if took := time.Since(start); took != c.took || got.generations() != 1 {
						t.Errorf("%v and %d requests, want %v", took, got.generations(), c.took)
					}
				})
			})
		}
	}
}

// 12. A prompt that is too long was sent again and again, at full price.
func TestReport12_AContextThatIsTooLongIsPermanent(t *testing.T) {
	for _, body := range []string{
		`{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`,
		`{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`,
		`{"object":"error","message":"This model's maximum context length is 4096 tokens","type":"BadRequestError","code":400}`,
	} {
		inAll(t, settings{}, func(c *call) {
			c.say = always(reply(400, body))
			if f := c.fails(llm.Permanent, "HTTP 400"); f.Class.Retryable() || f.Config {
				c.Errorf("%+v", f)
			}
		})
	}
}

// 13. A call that was cancelled went on, or was written down as free.
func TestReport13_ACancelledCallEndsAndItsCostIsUnknown(t *testing.T) {
	left := errors.New("the user left")
	inAll(t, settings{}, func(c *call) {
		gone := make(chan time.Time, 1)
		c.say = func(_ int, _ request, conn net.Conn) bool {
			if c.streamed {
				_, _ = io.WriteString(conn, stream(breaks, c.events[:len(c.events)-2]...))
			}
			_, _ = io.Copy(io.Discard, conn)
			gone <- time.Now()
			return false
		}
		ctx, cancel := context.WithCancelCause(c.Context())
		start := time.Now()
		time.AfterFunc(10*time.Second, func() { cancel(left) })
		a, f := c.run(ctx)
		if f == nil || f.Class != llm.Cancelled || !errors.Is(f, left) || f.WireRequests != 1 || f.Usage != nil || !f.Class.MayBeCharged() {
			c.Errorf("%+v, %+v", a, f)
		}
		if at := <-gone; at.Sub(start) != 10*time.Second {
			c.Errorf("the server saw the end after %v", at.Sub(start))
		}
	})
}

// 14. Cached tokens were paid twice, or at another rate: a subset of the input for one provider, beside it for another.
func TestReport14_CachedTokensArePaidOnceAndAtTheirRate(t *testing.T) {
	want := map[string]int64{
		"openai":    60*250_000 + 40*25_000 + 20*2_000_000,
		"anthropic": 60*1_000_000 + 40*100_000 + 20*5_000_000,
	}
	inAll(t, settings{}, func(c *call) {
		c.say = always(c.answer(c.streamed))
		a, f := c.run(c.Context())
		if f != nil {
			c.Fatal(f)
		}
		pico, _, ok := llm.ListPrices().Cost(c.provider, a.Model, *a.Usage)
		if !ok || pico != want[c.provider] || a.Usage.Input() != 100 {
			c.Errorf("%d for %+v, want %d", pico, *a.Usage, want[c.provider])
		}
	})
	// Written to be kept for an hour, a token costs more than the rate in the list, which is for five minutes.
	in(t, formats[2], false, settings{}, func(c *call) {
		c.say = always(reply(200, strings.Replace(c.whole, `"cache_creation_input_tokens":0`, `"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":9}`, 1)))
		a, f := c.run(c.Context())
		if f != nil || a.Usage.CacheWriteTokens != 9 {
			c.Fatalf("%+v %v", a, f)
		}
		if pico, _, ok := llm.ListPrices().Cost(c.provider, a.Model, *a.Usage); ok {
			c.Errorf("priced at %d", pico)
		}
	})
}

// 15. Usage was lost with a chunk without choices, taken from a first one of zeros, or added up twice.
func TestReport15_TheLastUsageCountsAndNoneIsUnknown(t *testing.T) {
	const none = -1
	text := formats[0].events[1] + formats[0].events[2] + formats[0].events[3]
	counts := func(in, out int) string {
		return fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`+"\n\n", in, out)
	}
	const null, done = `data: {"choices":[],"usage":null}` + "\n\n", "data: [DONE]\n\n"
	start, rest := formats[2].events[0], strings.Join(formats[2].events[1:5], "")
	delta := func(usage string) string {
		return `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}` + usage + "}\n\n"
	}
	const stop = `data: {"type":"message_stop"}` + "\n\n"
	for _, c := range []struct {
		f      format
		stream string
		in     int64
		out    int64
	}{
		{formats[0], text + counts(100, 20) + done, 100, 20},
		{formats[0], counts(0, 0) + text + counts(100, 20) + done, 100, 20},
		{formats[0], counts(100, 1) + text + counts(100, 20) + null + done, 100, 20},
		{formats[0], text + counts(100, 20) + counts(100, 20) + done, 100, 20},
		{formats[0], text + null + done, none, none},
		{formats[0], text + done, none, none},
		{formats[2], start + rest + delta(`,"usage":{"output_tokens":20}`) + stop, 100, 20},
		{formats[2], start + rest + delta(`,"usage":{"input_tokens":60,"cache_read_input_tokens":40,"output_tokens":20}`) + stop, 100, 20},
		{formats[2], start + rest + delta(`,"usage":null`) + stop, none, none}, // the first one's is only a beginning
		{formats[2], start + rest + delta("") + stop, none, none},
	} {
		in(t, c.f, true, settings{}, func(got *call) {
			got.say = always(stream(endsWell, c.stream))
			a, f := got.run(got.Context())
			if f != nil || a.Text != "Hello" {
				t.Fatalf("%s: %+v, %+v", c.stream, a, f)
			}
			if (a.Usage == nil) != (c.in == none) || a.Usage != nil && (a.Usage.Input() != c.in || a.Usage.OutputTokens != c.out) {
				t.Errorf("%s: usage %+v", c.stream, a.Usage)
			}
		})
	}
}

// 16. An error, or null, behind a 200 was taken for an answer.
func TestReport16_AnErrorBehindA200IsAFailure(t *testing.T) {
	for body, want := range map[string]llm.Class{
		`null`: llm.Ambiguous, `{}`: llm.Ambiguous, `[]`: llm.Ambiguous, `""`: llm.Ambiguous, ``: llm.Ambiguous, `{"choices":null}`: llm.Ambiguous,
		`{"error":"upstream died"}`: llm.Ambiguous, `{"error":{"message":"upstream died","code":502}}`: llm.Ambiguous,
		`{"detail":"upstream died"}`: llm.Ambiguous, `{"error":{"message":"x","code":{}}}`: llm.Ambiguous,
	} {
		inAll(t, settings{}, func(c *call) {
			c.say = always(reply(200, body))
			c.fails(want, "")
			c.say = always(stream(endsWell, "data: "+body+"\n\n"))
			if c.streamed {
				c.fails(want, "")
			}
		})
	}
	in(t, formats[0], false, settings{}, func(c *call) { // OpenRouter: in the choice
		c.say = always(reply(200, `{"choices":[{"error":{"code":502,"message":"upstream died"},"finish_reason":"error","message":{"content":"Hel"}}]}`))
		c.fails(llm.Ambiguous, "")
	})
}

// 17. An error that is a string lost its status; HTML was a JSON error, or an answer.
func TestReport17_AStatusSurvivesWhateverTheBodyIs(t *testing.T) {
	const page = `<html><head><title>Please log in</title></head></html>`
	for _, c := range []struct {
		status int
		body   string
		class  llm.Class
		says   string
	}{
		{404, `{"error":"model 'x' not found"}`, llm.Permanent, "HTTP 404: model 'x' not found"},
		{429, `{"error":"too many"}`, llm.RateLimited, "HTTP 429: too many"},
		{502, page, llm.Ambiguous, "HTTP 502"},
		{503, page, llm.Ambiguous, "HTTP 503"},
		{500, `null`, llm.Ambiguous, "HTTP 500"},
		{200, page, llm.Ambiguous, ""},
	} {
		inAll(t, settings{}, func(got *call) {
			got.say = always(reply(c.status, c.body))
			if f := got.fails(c.class, c.says); f.Status != c.status || strings.Contains(f.Message, "log in") {
				got.Errorf("%+v", f)
			}
		})
	}
}

// 18. A NUL in an answer broke the insert of everything with it; half a surrogate pair in a request broke the conversation.
func TestReport18_TextIsMadeFitInBothDirections(t *testing.T) {
	inAll(t, settings{}, func(c *call) {
		body := strings.NewReplacer(`"Hello"`, `"He\u0000l\ud83dlo`+"\xff"+`"`, `"lo"`, `"l\ud83d\u0000o`+"\xff"+`"`)
		if c.streamed {
			c.say = always(stream(endsWell, body.Replace(strings.Join(c.events, ""))))
		} else {
			c.say = always(reply(200, body.Replace(c.whole)))
		}
		var pieces strings.Builder
		bad := "a\x00b\xff\xed\xa0\xbdc" // half a pair as bytes
		a, f := c.ask(c.Context(), llm.Request{Model: c.model, System: bad, Content: bad, History: []llm.Message{{Role: llm.RoleUser, Text: bad}, {Role: llm.RoleAssistant, Text: bad}},
			Text: func(s string) { pieces.WriteString(s) }})
		if f != nil || !utf8.ValidString(a.Text) || strings.ContainsRune(a.Text, 0) || !strings.HasPrefix(a.Text, "Hel") || !strings.HasSuffix(a.Text, "\uFFFD") {
			c.Fatalf("%q, %+v", a.Text, f)
		}
		if got := pieces.String(); !utf8.ValidString(got) || strings.ContainsRune(got, 0) || c.streamed != (got != "") {
			c.Errorf("pieces %q", got)
		}
		if sent := c.last().body; !json.Valid([]byte(sent)) || !utf8.ValidString(sent) || strings.Contains(sent, `\u0000`) || strings.Contains(strings.ToLower(sent), `\ud8`) {
			c.Errorf("sent %q", sent)
		}
	})
}

// 19. A filtered answer, and one of reasoning alone, were saved as successes; every later turn was empty.
func TestReport19_AFilteredOrEmptyAnswerIsRejected(t *testing.T) {
	cases := map[string][]string{
		"chat": {
			strings.Replace(formats[0].whole, `"stop"`, `"content_filter"`, 1), strings.Replace(formats[0].whole, `"Hello"`, `""`, 1),
			strings.NewReplacer(`"Hello"`, `null`, `"stop"`, `"length"`).Replace(formats[0].whole), strings.NewReplacer(`"Hello"`, `null`, `"stop"`, `"tool_calls"`).Replace(formats[0].whole),
			strings.Replace(formats[0].whole, `"content":"Hello"`, `"content":null,"refusal":"I cannot"`, 1),
		},
		"responses": {
			strings.Replace(response("incomplete", "Hel"), `"output"`, `"incomplete_details":{"reason":"content_filter"},"output"`, 1), response("completed", ""),
			`{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning"}],"usage":{"input_tokens":100,"output_tokens":20}}`,
			strings.Replace(response("completed", "I cannot"), `"output_text","text"`, `"refusal","refusal"`, 1),
		},
		"messages": {
			strings.Replace(formats[2].whole, "end_turn", "refusal", 1), strings.Replace(formats[2].whole, `"Hello"`, `" \n"`, 1),
			strings.NewReplacer(`{"type":"text","text":"Hello"}`, `{"type":"thinking","thinking":"hm"}`, "end_turn", "max_tokens").Replace(formats[2].whole),
			strings.Replace(formats[2].whole, "end_turn", "pause_turn", 1),
		},
	}
	inAll(t, settings{}, func(c *call) {
		for _, body := range cases[c.name] {
			c.say = always(reply(200, body))
			f := c.fails(llm.RejectedOutput, "")
			if f.Usage == nil || f.Usage.OutputTokens != 20 || f.Class.Retryable() {
				c.Errorf("%s: %+v", body, f)
			}
		}
	})
}

// 21. A fallback in the middle of a stream said the beginning twice. What was begun is not begun again, nor is it an answer.
func TestReport21_NothingFollowsABrokenStream(t *testing.T) {
	for _, f := range formats {
		for _, end := range []string{endsWell, closes, breaks} {
			in(t, f, true, settings{}, func(c *call) {
				c.say = always(stream(end, c.events[:c.enough-2]...))
				var pieces []string
				a, f := c.ask(c.Context(), llm.Request{Model: c.model, Content: "Say hello.", Text: func(s string) { pieces = append(pieces, s) }})
				if f == nil || f.Class != llm.Ambiguous || a.Text != "" || c.generations() != 1 || c.connections() != 1 || len(pieces) == 0 || strings.Join(pieces, "") != "Hello"[:len(strings.Join(pieces, ""))] {
					t.Errorf("%s, %s: %+v, %+v, %d requests, pieces %q", c.name, end, a, f, c.generations(), pieces)
				}
			})
		}
	}
}

// 22. A response in the background was asked for without an end.
func TestReport22_AskingForABackgroundResponseEnds(t *testing.T) {
	for _, state := range []string{"queued", "in_progress", "not a status"} {
		for _, streamed := range []bool{false, true} {
			in(t, formats[1], streamed, settings{timeout: 5 * time.Minute, recovery: llm.RecoveryConfig{Kind: llm.RecoverBackground}}, func(c *call) {
				created := `{"id":"resp_1","status":"queued","output":[]}`
				c.say = func(n int, req request, conn net.Conn) bool {
					switch {
					case n == 1 && streamed:
						_, _ = io.WriteString(conn, stream(breaks, data(`{"type":"response.created","sequence_number":0,"response":`+created+`}`)...))
					case n == 1:
						_, _ = io.WriteString(conn, reply(200, created))
					default:
						_, _ = io.WriteString(conn, reply(200, strings.Replace(created, "queued", state, 1)))
					}
					return false
				}
				start := time.Now()
				a, f := c.run(c.Context())
				if f == nil || f.Class != llm.Ambiguous || time.Since(start) > 5*time.Minute+10*time.Second || c.generations() != 1 || len(c.requests) > 700 || f.WireRequests != 1 || f.Lookups != len(c.requests)-1 {
					t.Errorf("%s, streamed %v: %+v, %+v after %v and %d requests", state, streamed, a, f, time.Since(start), len(c.requests))
				}
			})
		}
	}
}

// 23. Go's own transport sent requests again: with an idempotency key on a kept connection, behind a redirect, without an
// end over HTTP/2 (see TestI5_ServerThatOffersHTTP2).
func TestReport23_TheTransportSendsNothingAgain(t *testing.T) {
	for _, f := range formats {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/streamed %v", f.name, streamed), func(t *testing.T) {
				p := &peer{}
				provider, err := f.make(settings{
					stream: streamed, recovery: llm.RecoveryConfig{Kind: llm.RecoverKey, Retention: time.Hour},
					http: llm.TransportConfig{KeepAlive: time.Hour, Dial: p.listen(t)},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer provider.(interface{ Close() }).Close()
				c := &call{t, f, p, streamed, provider}
				redirects := []int{301, 302, 303, 307, 308}
				p.say = func(n int, _ request, conn net.Conn) bool {
					switch {
					case n == 1:
						_, _ = io.WriteString(conn, f.answer(streamed))
					case n > 2:
						_, _ = io.WriteString(conn, reply(redirects[n-3], "", "Location: http://model.test/v1/elsewhere"))
					}
					return n != 2
				}
				if _, f := c.run(t.Context()); f != nil {
					t.Fatal(f)
				}
				c.fails(llm.Ambiguous, "no complete answer") // the server closes the kept connection when it has read the request
				if c.connections() != 1 || c.last().header.Get("Idempotency-Key") != "op-1" {
					t.Errorf("%d connections, %v", c.connections(), c.last().header)
				}
				for range redirects {
					c.fails(llm.Permanent, "redirect")
				}
			})
		}
	}
}
