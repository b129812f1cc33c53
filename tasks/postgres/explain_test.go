package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

// explained are the arguments, as SQL, with which each statement of the package is explained. A statement that is not
// here fails the test, and so does one here that the package no longer has. i(n) is the id of the n-th task; the last
// thousand are queued, the thousand before running.
var explained = map[string]string{
	"claimSQL":            `ARRAY[i(999990), i(5), i(500000)], ARRAY[w(999990), w(5), w(500000)], 'worker', 20000000, 60000000, 'sim', 0, false`,
	"claimLockSQL":        `ARRAY[i(999990), i(5), i(500000)], ARRAY[w(999990), w(5), w(500000)]`,
	"noteFreeSQL":         noteExample,
	"noteHeldSQL":         noteExample,
	"historiesSQL":        `ARRAY[i(999990), i(5), i(500000)], ARRAY[w(999990), w(5), w(500000)], 20, 100000, 1000`,
	"renewFreeSQL":        `ARRAY[i(998990), i(5)], ARRAY[w(998990), w(5)], '{1,1}', 20000000`,
	"renewHeldSQL":        `ARRAY[i(998990), i(5)], ARRAY[w(998990), w(5)], '{1,1}', 20000000`,
	"settleFreeSQL":       settleExample,
	"settleHeldSQL":       settleExample,
	"settlePlacedFreeSQL": settleExample + placedExample,
	"settlePlacedHeldSQL": settleExample + placedExample,
	"cancelSQL":           `w(998990), i(998990)`,
	"cancelLockSQL":       `w(998990), i(998990)`,
	"bindSQL":             `'{w1,w2}', '{message,message}', '{"key 5","key new"}', '{"\\x00","\\x01"}', ARRAY[i(-1), i(-2)], '{1000000,1000000}'`,
	"storeSQL": `ARRAY[i(-1), i(-2)], '{w1,w2}', '{c,c}', ARRAY[i(-1), i(-2)], '{reply,reply}', '{null,null}', '{text,text}', '{m,m}', '{s,s}',
		'{t,t}', '{d,d}', '{v,v}', '{0.5,null}', '{null,7}', '{3,3}', '{3,3}', '{1000000,1000000}', '{retry,stop}', '{"{}","{}"}', '{"",""}', '{0,1}', '{"",v}',
		'{null,7}', '{null,2026-11-30}', '{null,"[]"}', '{null,"{}"}', '{1000000,1000000}'`,
	"messagesSQL":             `ARRAY[i(5), i(6)], ARRAY[w(5), w(6)], '{c5,c6}'`,
	"boundSQL":                `'{w5,w6,w2}', '{message,message,message}', '{"key 5","key 6","key new"}', '{"\\x00","\\x01","\\x00"}', ARRAY[i(-1), i(-2), i(-3)]`,
	"bindingSQL":              `'w5', 'message', 'key 5'`,
	"expireSQL":               `'{w5,w2}', '{message,message}', '{"key 5","key new"}'`,
	"taskSQL":                 `w(500000), i(500000)`,
	"allPageSQL":              `i(900000), 100, '', ''`,
	"workspacePageSQL":        `i(900000), 100, '', 'w5'`,
	"conversationPageSQL":     `i(900000), 100, '', 'w5', 'c5'`,
	"unfinishedPageSQL":       `'ffffffff-ffff-ffff-ffff-ffffffffffff', 100, 'running', '', ''`,
	"finishedSQL":             `ARRAY[i(5), i(998990), i(-1)]`,
	"attemptsSQL":             `w(500000), i(500000)`,
	"conversationSQL":         `'w5', 'c5', 0, 100`,
	"createKeySQL":            `i(1), 'w1', 'name', '\x01', '{read}'`,
	"touchKeysSQL":            `ARRAY[i(1), i(2)]`,
	"keyByHashSQL":            `'\x01'`,
	"listKeysSQL":             `'w1'`,
	"listAllKeysSQL":          ``,
	"revokeKeySQL":            `i(1)`,
	"lockWaitSQL":             `'2s'`,
	"registerDispatcher":      `'me', '5s'`,
	"acquireShards":           `'me', '5s'`,
	"resignDispatcher":        `'me'`,
	"readHandoffs":            `'{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}', array_fill(0::bigint, '{16}'), 100`,
	"deleteHandoffs":          `'{0,1,2}', '{16,17,18}'`,
	"dueHandoffs":             `100`,
	"promoteHandoffs":         `ARRAY[i(999990), i(999991)], '{0,1}'`,
	"pendingHandoffs":         `10001`,
	"leaderOfShards":          ``,
	"unfinishedByStatusSQL":   `5000`,
	"snapshotOutbox":          `1000`,
	"unfinishedTasks":         `now(), pg_current_snapshot(), '10s', '00000000-0000-0000-0000-000000000000', 1000`,
	"recoverTasks":            `now(), pg_current_snapshot(), '10s', ARRAY[i(999990), i(999991)], '{0,1}'`,
	"unfinishedSQL":           `5000`,
	"unfinishedOfSQL":         `'w5', 1000`,
	"notify":                  `'{fencepost_handoffs}'`,
	"publishSQL":              `ARRAY[i(998990), i(998991), i(5)], '{2,2,1}', '{1,1,1}', '{200,200,0}', '{1,1,1}', '{a,b,c}', 262144`,
	"dropLiveSQL":             `ARRAY[i(998990), i(998991), i(5)], '{2,2,1}'`,
	"liveSQL":                 `ARRAY[i(998990), i(998991), i(5)], '{2,2,0}', '{50,90,0}', 262144, 8388608`,
	"sweepLiveSQL":            `3600000000, 1000`,
	"setBudgetSQL":            `'w1', 1000`,
	"removeBudgetSQL":         `'w1'`,
	"budgetsSQL":              ``,
	"sweepDaysSQL":            `864000000000, 100`,
	"capsSQL":                 `'{w1,w2}'`,
	"openDaysSQL":             `'{w1,w2}'`,
	"lockDaysSQL":             `'{w1,w2}'`,
	"foldSQL":                 `'{w1,w2}'`,
	"chargeDaysSQL":           `'{w1,w2}', '{2026-11-30,2026-11-30}', '{1,1}', '{1,1}'`,
	"unbindSQL":               `'{w1,w2}', '{message,message}', '{"key 5","key new"}'`,
	"dayUsageSQL":             usageExample,
	"usageSQL":                usageExample,
	"unknownUsageSQL":         usageExample + `, 100`,
	"noTimeoutSQL":            ``,
	"sweepChangesSQL":         `864000000000, 100`,
	"sweepKeysSQL":            `500`,
	"countKeysSQL":            `500`,
	"countLiveSQL":            `3600000000, 1000`,
	"countDaysSQL":            `864000000000, 100`,
	"countChangesSQL":         `864000000000, 100`,
	"lockTasksSQL":            `i(500000), 250, 1000000`,
	"countTasksSQL":           `i(500000), 250, 1000000`,
	"deleteTasksSQL":          `every(4000, 250)`,
	"originalSQL":             `w(500000), i(500000)`,
	"spendDaysSQL":            spendExample,
	"spendModelsSQL":          spendExample,
	"spendDocumentsSQL":       `'w5', '2000-01-01', '2100-01-01', 'd5', 'v2', true, 101`,
	"spendConversationsSQL":   `'w5', '2000-01-01', '2100-01-01', 'c5', '', true, 101`,
	"spendDaysOfSQL":          spendExample + `, 'd5'`,
	"spendModelsOfSQL":        spendExample + `, 'd5'`,
	"spendVersionsOfSQL":      spendExample + `, 'd5'`,
	"spendConversationsOfSQL": spendExample + `, 'd5'`,
	"spendersSQL":             ``,
	"foldSpendSQL":            `500, 7`,
	"progressSQL":             `every(1000, 1000)`,
	"recentTasksSQL":          `10000`,
	"recentAttemptsSQL":       `10000`,
	"recentFailuresSQL":       `10000, 20`,
	"spentTodaySQL":           `5000`,
	"lockReplaySQL":           `i(1)`,
	"rearmShardsSQL":          `ARRAY[i(999990), i(5)], ARRAY[w(999990), w(5)]`,
	"rearmSQL":                `i(1), every(4000, 250), owners(4000, 250), array_fill(0::smallint, '{250}'), true, true, 5, 10, 3600000000, false`,
	"stepReplaySQL":           `i(1), '{}', 1, 1`,
	"lookSQL":                 `every(4000, 250), owners(4000, 250), i(1)`,
	"selectSQL":               `i(500000), 20000, 'failed', 'quota', 'w5', 3600000000`,
	"openReplaySQL":           `'scope'`,
	"beginReplaySQL":          `i(1), 'tasks', 'scope', 'me', 'why', '{}', '{}'`,
	"endReplaySQL":            `i(1)`,
}

const settleExample = `ARRAY[i(998990), i(998991), i(998992), i(998993), i(5)], ARRAY[w(998990), w(998991), w(998992), w(998993), w(5)], '{1,1,1,1,1}',
	'{complete,retry,fail,release,complete}', ARRAY[i(-1), i(-2), i(-3), i(-4), i(-5)], '{a,a,a,a,a}', '{m,m,m,m,m}', '{stop,"","","",""}',
	'{"",overloaded,permanent,"",""}', '{"",a,b,"",""}', '{0,1000,0,0,0}', '{f,t,f,f,f}', '{1,1,1,0,1}', '{"","","","",""}', '{m,m,m,"",m}',
	'{1,1,1,null,1}', '{1,1,1,null,1}', '{null,1,1,null,1}', '{0,1,1,null,1}', '{0,1,1,null,1}',
	'{"",v,v,"",v}', '{0,0,0,0,0}', '{0,0,1,0,2}', '{0,0,0,0,1}', '{null,null,null,null,"{}"}'`

const spendExample = `'w5', '2000-01-01', '2100-01-01', '', '', false, 101`

const noteExample = `ARRAY[i(998990), i(5)], ARRAY[w(998990), w(5)], '{1,1}', '{ref,""}', '{null,"\\x00"}'`

const usageExample = `i(500000), i(501000), '2000-01-01', '2200-01-01', 'sim'`

const placedExample = `, '{g5,g5,g5,g6,g7}', ARRAY[i(1), i(1), i(1), i(1), i(1)], '{5,5,6,5,5}', '{1,1,1,1,1}', '{5,7,5,5,5}', '{6,8,6,6,6}'`

const (
	filled = 1_000_000
	// maxPages bounds what one run of a statement touches, in pages of 8 KiB: enough for a thousand look-ups, less than any
	// of the big tables or their indexes. Postgres cannot hide a scan from it, as it can behind the name of an index.
	maxPages = 6000
)

// The big tables. Of a million tasks, the last 2,000 are not finished. A conversation has twenty messages.
var fill = []string{
	`create function i(n bigint) returns uuid immutable language sql as $$ select lpad(to_hex(n + 4294967296), 32, '0')::uuid $$`,
	`create function w(n bigint) returns text immutable language sql as $$ select 'w' || n % 50 $$`,
	`create function every(step bigint, times bigint) returns uuid[] immutable language sql as $$
		select array_agg(i(n * step)) from generate_series(1, times) n $$`,
	`create function owners(step bigint, times bigint) returns text[] immutable language sql as $$
		select array_agg(w(n * step)) from generate_series(1, times) n $$`,
	`insert into reply_tasks (id, workspace, conversation, message_id, kind, status, assignment_version, lease_until, worker, attempts,
		max_attempts, max_interruptions, on_ambiguous, accepted_at, available_at, deadline, finished_at)
	select i(n), w(n), 'c' || n % 50000, i(n), 'reply', s, (s <> 'queued')::int, case s when 'running' then now() + '1h' end, 'worker',
		(s <> 'queued')::int, 3, 3, 'retry', now() - '1h'::interval, now() - '1h'::interval, now() + '1d', case s when 'completed' then now() end
	from (select n, case when n > $1 - 1000 then 'queued' when n > $1 - 2000 then 'running' else 'completed' end as s from generate_series(1, $1::bigint) n) x`,
	`insert into messages (id, workspace, conversation, content, created_at)
	select i(n), w(n), 'c' || n % 50000, 'hello', now() from generate_series(1, $1::bigint) n`,
	`insert into task_requests (task_id, model, system, prompt_template, document_id, document_version, metadata, trace_parent, key_expires_at)
	select i(n), 'model', '', '', '', '', '{}', '', now() from generate_series(1, $1::bigint) n`,
	`insert into replies select i(n), i(n), i(n), 'hello', 'model', 'stop', 1, now() from generate_series(1, $1::bigint - 2000) n`,
	`insert into attempts (task_id, assignment_version, attempt, worker, provider, model, started_at)
	select i(n), 1, 1, 'worker', 'sim', 'model', now() from generate_series(1, $1::bigint - 1000) n`,
	`insert into submissions select w(n), 'message', 'key ' || n, '\x00', i(n), now(), now() + case when n > $1::bigint * 4 / 5 then '-1h'::interval else '1d' end from generate_series(1, $1::bigint) n`,
	`insert into handoffs (shard, task_id, workspace, conversation, trace_parent, accepted_at, created_at)
	select n % 16, i(n), w(n), 'c' || n % 50000, '', now(), now() from generate_series(1, $1::bigint / 4) n`,
	`insert into partition_positions select 'g' || n / 100, i(1), n % 100, 't', 1, 'worker', '{[0,5)}', now() from generate_series(1, $1::bigint / 10) n`,
	`insert into delayed_handoffs select i(n), w(n), now() + '1h' from generate_series(1, $1::bigint / 4) n`,
	`update reply_tasks set reserved_picousd = 5, reserved_on = now()::date where id between i($1::bigint - 1010) and i($1::bigint - 1000)`,
	`insert into budgets select 'w' || n, 1000, now() from generate_series(0, 9) n`,
	`insert into budget_days select 'w' || n % 50, now()::date - (n / 50)::int, 1, 1 from generate_series(0, $1::bigint / 20) n`,
	`insert into budget_changes select w(n), now()::date - (n / 50 % 1000)::int, 1, -1 from generate_series(1, $1::bigint / 4) n`,
	`insert into spend_days select 'w' || n % 50, '2026-11-30'::date - (n / 50 % 365)::int, 'model ' || n / 50 / 365, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0
	from generate_series(0, 50 * 365 * 3 - 1) n`,
	`insert into spend_documents select w(n), 'd' || n % 5000, 'v' || n / 5000 % 4, '2026-11-30'::date - (n / 20000)::int, 'model', 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0
	from generate_series(1, $1::bigint / 2) n`,
	`insert into spend_conversations select w(n), 'c' || n % 50000, 'd' || n % 5000, '2026-11-30'::date - (n / 50000)::int, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0
	from generate_series(1, $1::bigint) n`,
	`insert into spend_changes select i(n * 100), 1, 0, 1, 0, 1, '2026-11-30', 1, false, false, false, w(n), 'model' from generate_series(1, $1::bigint / 100) n`,
	`insert into live_texts select i($1::bigint - 2000 + n / 200), 2, n % 200, 1, 1, 'word', n % 200 * 4, now() - n * '10ms'::interval
	from generate_series(1, $1::bigint / 4) n`,
}

var bigTables = []string{"reply_tasks", "messages", "task_requests", "replies", "attempts", "submissions", "handoffs", "delayed_handoffs", "partition_positions", "live_texts",
	"budget_days", "budget_changes", "spend_days", "spend_documents", "spend_conversations", "spend_changes"}

// TestPlans fills a database with a million tasks and runs every statement of the package on it, planned once for all
// arguments as the store's own sessions do, and planned for these arguments as behind a pooler.
func TestPlans(t *testing.T) {
	statements := statementsOf(t, ".")
	if a, b := slices.Sorted(maps.Keys(statements)), slices.Sorted(maps.Keys(explained)); !slices.Equal(a, b) {
		t.Fatalf("statements of the package:\n%q\nexplained here:\n%q", a, b)
	}
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, table := range bigTables {
		exec(`alter table ` + table + ` set unlogged`)
	}
	exec(`set work_mem = '256MB'`)
	for _, sql := range fill {
		exec(strings.ReplaceAll(sql, "$1", strconv.Itoa(filled)))
	}
	exec(`vacuum analyze`)
	exec(`reset work_mem`)
	for _, session := range []struct{ name, set string }{
		{"store", `set plan_cache_mode = force_generic_plan; set enable_seqscan = off`},
		{"pooler", `set plan_cache_mode = force_custom_plan; set enable_seqscan = on`},
	} {
		t.Run(session.name, func(t *testing.T) {
			exec(session.set)
			for name, sql := range statements {
				t.Run(name, func(t *testing.T) { explain(t, conn, sql, explained[name]) })
			}
		})
	}
}

// TestPlansMadeWhileTheLedgerWasEmpty: such a plan takes the whole table for one row, and stays until the table is
// analyzed. Claims are the first to come to a ledger without attempts.
func TestPlansMadeWhileTheLedgerWasEmpty(t *testing.T) {
	k := newKit(t)
	conn := k.connect()
	refs := k.submit(3000)
	k.exec(k.admin, `vacuum analyze`)
	k.exec(conn, `set plan_cache_mode = force_generic_plan; set enable_seqscan = off`)
	statements := map[string]struct{ sql, args string }{
		"claim":  {claimSQL, `'{ID}', '{w}', 'worker', 20000000, 60000000, 'sim', 0, false`},
		"cancel": {cancelSQL, `'w', 'ID'`},
	}
	for name, s := range statements {
		k.exec(conn, `prepare `+name+` as `+s.sql)
		k.exec(conn, `execute `+name+`(`+strings.ReplaceAll(s.args, "ID", uuid.Nil.String())+`)`)
	}
	k.claim(time.Hour, refs[2:]...)
	for i, name := range []string{"claim", "cancel"} {
		var plans string
		err := conn.QueryRow(t.Context(), `explain (analyze, buffers, format json) execute `+name+`(`+
			strings.ReplaceAll(statements[name].args, "ID", refs[i].TaskID.String())+`)`, pgx.QueryExecModeSimpleProtocol).Scan(&plans)
		if err != nil {
			t.Fatal(name, err)
		}
		var list []struct{ Plan map[string]any }
		if err := json.Unmarshal([]byte(plans), &list); err != nil {
			t.Fatal(err)
		}
		if pages := touched(list[0].Plan); pages > 60 {
			t.Errorf("%s of one task touches %.0f pages:\n%s", name, pages, plans)
		}
	}
}

func explain(t *testing.T, conn *pgx.Conn, sql, args string) {
	execute := "p"
	if args != "" {
		execute += "(" + args + ")"
	}
	var plans string
	err := func() error {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		for _, s := range []string{"deallocate all", "prepare p as " + sql} {
			if _, err := tx.Exec(t.Context(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		return tx.QueryRow(t.Context(), "explain (analyze, buffers, format json) execute "+execute, pgx.QueryExecModeSimpleProtocol).Scan(&plans)
	}()
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ Plan map[string]any }
	if err := json.Unmarshal([]byte(plans), &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		walk(p.Plan, func(node map[string]any) {
			table, _ := node["Relation Name"].(string)
			if node["Node Type"] == "Seq Scan" && slices.Contains(bigTables, table) {
				t.Errorf("scans the whole of %s:\n%s", table, plans)
			}
		})
		if pages := touched(p.Plan); pages > maxPages {
			t.Errorf("touches %.0f pages, more than %d:\n%s", pages, maxPages, plans)
		}
	}
}

// touched is how many pages the part of a plan that reads or writes most has touched. The whole does not count what is
// written after its last row: a part that changes data and that nothing reads from.
func touched(plan map[string]any) (most float64) {
	walk(plan, func(node map[string]any) {
		most = max(most, node["Shared Hit Blocks"].(float64)+node["Shared Read Blocks"].(float64))
	})
	return most
}

func walk(node map[string]any, do func(map[string]any)) {
	do(node)
	children, _ := node["Plans"].([]any)
	for _, child := range children {
		walk(child.(map[string]any), do)
	}
}

var isStatement = regexp.MustCompile(`(?is)^\s*(select|with|insert|update|delete)\s`)

// statementsOf are the package's constants that are SQL, by name, without those that are only parts of others.
func statementsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	values := make(map[string]ast.Expr)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, v := range spec.Values {
					values[spec.Names[i].Name] = v
				}
			}
			return true
		})
	}
	parts := make(map[string]bool)
	statements := make(map[string]string)
	for name, expr := range values {
		if sql, err := evaluate(expr, values, parts); err == nil && isStatement.MatchString(sql) {
			statements[name] = sql
		}
	}
	maps.DeleteFunc(statements, func(name, _ string) bool { return parts[name] })
	return statements
}

// evaluate is the string of a constant expression.
func evaluate(expr ast.Expr, values map[string]ast.Expr, parts map[string]bool) (string, error) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.Ident:
		parts[e.Name] = true
		if v, ok := values[e.Name]; ok {
			return evaluate(v, values, parts)
		}
	case *ast.BinaryExpr:
		x, errx := evaluate(e.X, values, parts)
		y, erry := evaluate(e.Y, values, parts)
		if errx == nil && erry == nil {
			return x + y, nil
		}
	}
	return "", fmt.Errorf("%T: %w", expr, fs.ErrInvalid)
}
