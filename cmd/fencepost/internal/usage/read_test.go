package usage

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(day int) time.Time { return time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC) }

func ptr[T any](v T) *T { return &v }

const openAIPage = `{
 "object": "page",
 "data": [
  {"object": "bucket", "start_time": 1795910400, "end_time": 1795996800, "results": [
    {"object": "organization.usage.completions.result", "input_tokens": 1000, "output_tokens": 500, "input_cached_tokens": 800,
     "num_model_requests": 5, "project_id": null, "model": "gpt-5-mini-2025-08-07", "batch": null},
    {"input_tokens": 1, "output_tokens": 2, "num_model_requests": 1, "model": "gpt-5"}]},
  {"start_time": 1795996800, "end_time": 1796083200, "results": []}
 ],
 "has_more": true, "next_page": {"page": [1, {"data": 2}]}
}`

const anthropicPage = `{"data": [{"starting_at": "2026-11-30T00:00:00Z", "ending_at": "2026-12-01T00:00:00Z", "results": [
 {"uncached_input_tokens": 1500, "cache_creation": {"ephemeral_1h_input_tokens": 1000, "ephemeral_5m_input_tokens": 500},
  "cache_read_input_tokens": 200, "output_tokens": 500, "server_tool_use": {"web_search_requests": 10}, "model": "claude-opus-4-1"}]}],
 "has_more": false, "next_page": null}`

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Export
	}{
		{"CSV by day", "\xef\xbb\xbfDate, Model, Input_Tokens, output_tokens, extra\n2026-11-30,m,10,20,x\n\n2026-11-29,\"m,2\",0,0,y\n", Export{Records: []Record{
			{Time: at(30), Model: "m", Requests: -1, InputTokens: 10, CachedInputTokens: -1, OutputTokens: 20, Line: 2},
			{Time: at(29), Model: "m,2", Requests: -1, CachedInputTokens: -1, Line: 4},
		}}},
		{"CSV by request", "start_time,model,requests,input_tokens,cached_input_tokens,output_tokens,amount,request_id\r\n" +
			"2026-11-30T13:00:00+01:00,m,,10,4,20,0.000001,req-1\r\n1796040000,m,2,1,,1,,req-2\r\n2026-11-30 12:00:00,m,,1,0,1,0,req-3", Export{Records: []Record{
			{Time: noon, Model: "m", RequestID: "req-1", Requests: 1, InputTokens: 10, CachedInputTokens: 4, OutputTokens: 20, PicoUSD: ptr[int64](1_000_000), Line: 2},
			{Time: noon, Model: "m", RequestID: "req-2", Requests: 2, InputTokens: 1, CachedInputTokens: -1, OutputTokens: 1, Line: 3},
			{Time: noon, Model: "m", RequestID: "req-3", Requests: 1, InputTokens: 1, OutputTokens: 1, PicoUSD: ptr[int64](0), Line: 4},
		}}},
		{"OpenAI", openAIPage, Export{Provider: "openai", Partial: true, Records: []Record{
			{Time: at(29), Model: "gpt-5-mini-2025-08-07", Requests: 5, InputTokens: 1000, CachedInputTokens: 800, OutputTokens: 500, Line: 4},
			{Time: at(29), Model: "gpt-5", Requests: 1, InputTokens: 1, CachedInputTokens: -1, OutputTokens: 2, Line: 4},
		}}},
		{"Anthropic", "\n " + anthropicPage, Export{Provider: "anthropic", Records: []Record{
			{Time: at(30), Model: "claude-opus-4-1", Requests: -1, InputTokens: 3200, CachedInputTokens: 200, OutputTokens: 500, Line: 2},
		}}},
		{"a list of pages, and one behind it", "[" + anthropicPage + ",\n" + anthropicPage + "]" + anthropicPage, Export{Provider: "anthropic", Records: []Record{
			{Time: at(30), Model: "claude-opus-4-1", Requests: -1, InputTokens: 3200, CachedInputTokens: 200, OutputTokens: 500, Line: 1},
			{Time: at(30), Model: "claude-opus-4-1", Requests: -1, InputTokens: 3200, CachedInputTokens: 200, OutputTokens: 500, Line: 5},
			{Time: at(30), Model: "claude-opus-4-1", Requests: -1, InputTokens: 3200, CachedInputTokens: 200, OutputTokens: 500, Line: 8},
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(c.text))
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	const header = "date,model,input_tokens,output_tokens,amount,request_id\n"
	bucket := func(times, results string) string {
		return "{\"data\":\n[{" + times + `,"results":[` + results + "]}]}"
	}
	const day = `"start_time":1796000000,"end_time":1796000001`
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "no rows"},
		{"white space", " \n\t ", "no rows"},
		{"a header alone", header, "no rows"},
		{"a page without rows", `{"data":[]}`, "no rows"},
		{"a missing column", "date,model,output_tokens\n", "line 1: there is no column input_tokens"},
		{"two columns of one kind", "date,start_time,model,input_tokens,output_tokens\n", "line 1: two columns"},
		{"a count that is none", header + "2026-11-30,m,1,2,,\n2026-11-30,m,1.5,2,,\n", `line 3: input_tokens: "1.5"`},
		{"a count that is missing", header + "2026-11-30,m,1,,,\n", `line 2: output_tokens: ""`},
		{"a negative count", header + "2026-11-30,m,-1,2,,\n", `line 2: input_tokens: "-1"`},
		{"a count that is too large", header + "2026-11-30,m,1000000000000001,2,,\n", "line 2: a count is more than"},
		{"a time that is none", header + "30.11.2026,m,1,2,,\n", `line 2: "30.11.2026" is not a time`},
		{"a time that cannot be meant", header + "7,m,1,2,,\n", "line 2: the time 1970"},
		{"an amount that is none", header + "2026-11-30,m,1,2,$1,\n", `line 2: amount: "$1"`},
		{"a short row", header + "2026-11-30,m,1,2\n", "line 2: wrong number of fields"},
		{"a quote that is not closed", header + "2026-11-30,\"m,1,2,,\n\n", "line 3: extraneous or missing"},
		{"no model", header + "2026-11-30,,1,2,,\n", "line 2: the model is missing"},
		{"request ids in part", header + "2026-11-30,m,1,2,,r\n2026-11-30,m,1,2,,\n", "line 3: some rows have"},
		{"JSON of another kind", `{"usage":[]}`, `line 1: the page has no "data"`},
		{"a list of numbers", "[\n1]", "line 2: 1 where a page"},
		{"a list of lists", "[\n[", "line 2: [ where a page"},
		{"data that is no list", `{"data":{}}`, `"data" is not a list`},
		{"JSON that ends", "{\"data\":\n[", "line 2: unexpected EOF"},
		{"a list that ends", "[" + anthropicPage + "\n", "unexpected EOF"},
		{"JSON that is none", "{\"data\":\n[x]}", "line 2: invalid character 'x'"},
		{"a bucket without times", bucket(`"x":1`, ""), "line 2: a bucket has neither"},
		{"a bucket of a week", bucket(`"start_time":1796000000,"end_time":1796600000`, ""), "line 2: the bucket from"},
		{"a result without a model", bucket(day, `{"input_tokens":1,"output_tokens":1,"model":null}`), "line 2: the model is missing"},
		{"a result without input", bucket(day, `{"uncached_input_tokens":1,"output_tokens":1,"model":"m"}`), "line 2: a result has no input"},
		{"a result without output", bucket(day, `{"input_tokens":1,"model":"m"}`), "line 2: a result has no output"},
		{"a negative result", bucket(day, `{"input_tokens":-1,"output_tokens":1,"model":"m"}`), "line 2: a count is negative"},
		{"a negative count of requests", bucket(day, `{"input_tokens":1,"output_tokens":1,"num_model_requests":-1,"model":"m"}`), "line 2: a count is negative"},
		{"a word for a number", bucket(day, `{"input_tokens":"1","output_tokens":1,"model":"m"}`), "line 2: json: cannot unmarshal string"},
		{"two providers", anthropicPage + openAIPage, "pages of two providers"},
		{"too many results", bucket(day, strings.Repeat("{},", maxResults)+"{}"), "more than 100000 results"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) || len(got.Records) > 0 {
				t.Errorf("%d records, %v; want %q", len(got.Records), err, c.want)
			}
		})
	}
}

// endless repeats a text for ever, and counts what was read of it.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.read%len(e.text):])
	e.read += n
	return n, nil
}

func TestReadIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"one line": "a", "one field": `"a`, "spaces": "            ", "one string": `{"a":"` + strings.Repeat("b", 1000), "brackets": "[",
	} {
		e := &endless{text: text}
		if _, err := Read(e); err == nil || e.read > MaxBytes+1<<20 {
			t.Errorf("%s: %v after %d bytes", name, err, e.read)
		}
	}
	const header = "date,model,input_tokens,output_tokens,extra\n"
	row := "2026-11-30,m,1,1," + strings.Repeat("x", 1000) + "\n"
	if e, err := Read(io.MultiReader(strings.NewReader(header), &endless{text: row})); !errors.Is(err, errTooLong) {
		t.Errorf("%d rows without an end: %v, want %v", len(e.Records), err, errTooLong)
	}
	var e Export
	for range MaxRecords {
		e.Records = append(e.Records, Record{})
	}
	if err := e.add(Record{Time: noon, Model: "m"}); !errors.Is(err, errTooMany) {
		t.Errorf("%v, want %v", err, errTooMany)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("date,model,input_tokens,output_tokens\n2026-11-30,m,10,20\n")
	f.Add("start_time,model,requests,input_tokens,cached_input_tokens,output_tokens,amount,request_id\n2026-11-30T00:00:00Z,m,1,1,1,1,0.1,r\n")
	f.Add(openAIPage)
	f.Add(anthropicPage)
	f.Add("[" + anthropicPage + "," + anthropicPage + "]")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Read(strings.NewReader(text))
		if err != nil {
			if len(e.Records) > 0 {
				t.Errorf("half an export beside %v", err)
			}
			return
		}
		lines := strings.Count(text, "\n") + 1
		for _, r := range e.Records {
			if r.Model == "" || r.InputTokens < 0 || r.OutputTokens < 0 || r.CachedInputTokens < -1 || r.Requests < -1 || r.Line < 1 || r.Line > lines {
				t.Errorf("record %+v of %d lines", r, lines)
			}
		}
		if from, to := e.Period(); len(Within(e.Records, from, to)) != len(e.Records) {
			t.Errorf("the period %v to %v is not of all records", from, to)
		}
	})
}
