package main

// mutant is one way to break the code.
type mutant struct {
	name      string
	invariant string
	edits     []edit
	test      []string // arguments of go test, which must fail
}

// edit replaces a text that is in a file exactly once.
type edit struct{ file, old, new string }

// simulation is enough seeds for whatever it is to be caught.
var simulation = []string{"./e2e/sim", "-sim.seeds=300"}

var mutants = []mutant{
	{
		name: "drop the version check", invariant: "I4",
		edits: []edit{{
			"tasks/memory/settle.go",
			"case r.Version != item.Version || r.Status != tasks.StatusRunning:",
			"case r.Status != tasks.StatusRunning:",
		}},
		test: simulation,
	},
	{
		name: "drop the version check in Postgres", invariant: "I4",
		edits: []edit{{
			"tasks/postgres/settle.go",
			"when l.status = 'running' and l.assignment_version = l.version then case",
			"when l.status = 'running' then case",
		}},
		test: []string{"./tasks/postgres", "-run=TestStore"},
	},
	{
		name: "use now() for the clock", invariant: "I4",
		edits: []edit{{
			"tasks/postgres/settle.go",
			"select clock_timestamp() as now from (select count(*) from locked) n",
			"select now() as now from (select count(*) from locked) n",
		}},
		test: []string{"./tasks/postgres", "-run=TestI4_AfterTheLockThenTheClock"},
	},
	{
		name: "commit the highest finished record", invariant: "I2",
		edits: []edit{{
			"offsets/tracker.go",
			"return Position{Offset: t.at(t.head).offset, LeaderEpoch: t.epoch}",
			`at := t.at(t.head).offset
		for seq := t.head; seq < t.tail; seq++ {
			if t.at(seq).done {
				at = t.at(seq).offset + 1
			}
		}
		return Position{Offset: at, LeaderEpoch: t.epoch}`,
		}},
		test: simulation,
	},
	{
		name: "skip the lock of the owner's epoch", invariant: "I4",
		edits: []edit{{
			"tasks/postgres/place.go",
			"order by p.consumer_group, p.topic_id, p.partition for update of p",
			"order by p.consumer_group, p.topic_id, p.partition",
		}},
		test: []string{"./tasks/postgres", "-run=TestI4_AfterTheLocksThenTheEpoch"},
	},
	{
		name: "skip the lock of the owner's epoch for a place alone", invariant: "I4",
		edits: []edit{{
			"offsets/postgres/settle.go",
			"order by p.consumer_group, p.topic_id, p.partition for update of p",
			"order by p.consumer_group, p.topic_id, p.partition",
		}},
		test: []string{"./offsets/postgres", "-run=TestI4_AfterTheLockThenTheEpoch"},
	},
	{
		name: "forget the gap span", invariant: "I2",
		edits: []edit{{
			"offsets/tracker.go",
			"Run{From: before + 1, To: s.offset + 1}",
			"Run{From: max(before, s.offset), To: s.offset + 1}",
		}},
		test: []string{"./offsets", "-run=TestI2_"},
	},
	{
		name: "forget the gap span of a place", invariant: "I2",
		edits: []edit{{
			"consumer/place.go",
			"Epoch: o.Epoch, From: it.from, To: it.offset + 1}",
			"Epoch: o.Epoch, From: it.offset, To: it.offset + 1}",
		}},
		test: []string{"./consumer", "-run=TestI2_GapsAreSettledWithTheRecordBehindThem"},
	},
	{
		name: "reuse a tracker after a reassignment", invariant: "I2",
		edits: []edit{
			{
				"consumer/session.go",
				"tracker: offsets.NewTracker(), lanes:",
				"tracker: reusedTracker(c, key), lanes:",
			},
			{
				"consumer/session.go",
				"// onRevoked drains: started work",
				`var reusedTrackers sync.Map

func reusedTracker(c *Consumer, key partitionKey) *offsets.Tracker {
	type owner struct {
		c   *Consumer
		key partitionKey
	}
	t, _ := reusedTrackers.LoadOrStore(owner{c, key}, offsets.NewTracker())
	return t.(*offsets.Tracker)
}

// onRevoked drains: started work`,
			},
			{"consumer/session.go", "\t\"fmt\"\n", "\t\"fmt\"\n\t\"sync\"\n"},
		},
		test: simulation,
	},
	{
		name: "refresh the attempts on redelivery", invariant: "I5",
		edits: []edit{{
			"tasks/memory/claim.go",
			"overrun = 1",
			"overrun = 1\n\t\tr.Attempts = 0",
		}},
		test: simulation,
	},
	{
		name: "refresh the attempts on redelivery in Postgres", invariant: "I5",
		edits: []edit{{
			"tasks/postgres/claim.go",
			"attempts = t.attempts + case j.verdict when 'claimed' then 1 else 0 end,",
			"attempts = case when j.overrun = 1 then 0 else t.attempts end + case j.verdict when 'claimed' then 1 else 0 end,",
		}},
		test: []string{"./tasks/postgres", "-run=TestStore"},
	},
	{
		name: "claim again although the task says stop", invariant: "I7",
		edits: []edit{{
			"tasks/postgres/claim.go",
			"when a.attempt is not null and k.on_ambiguous = 'stop' and not $8::boolean then 'stopped'",
			"when false then 'stopped'",
		}},
		test: []string{"./tasks/postgres", "-run=TestStore"},
	},
	{
		name: "believe what the snapshot says of the ledger", invariant: "I7",
		edits: []edit{{"tasks/postgres/claim.go", "k.ask and not exists", "false and not exists"}},
		test:  []string{"./tasks/postgres", "-run=TestI7_ARowThatMoved"},
	},
	{
		name: "pay for a recovered answer twice", invariant: "I7",
		edits: []edit{{
			"tasks/postgres/settle.go",
			"picousd = case j.recovered when 0 then j.picousd else 0 end",
			"picousd = j.picousd",
		}},
		test: []string{"./tasks/postgres", "-run=TestStore"},
	},
	{
		name: "commit on lost", invariant: "I2",
		edits: []edit{{
			"consumer/session.go",
			"list := s.of(lost)\n",
			"list := s.of(lost)\n\ts.commit(context.Background(), list)\n",
		}},
		test: []string{"./consumer", "-run=TestI2_NothingIsCommittedOfWhatIsLost"},
	},
	{
		name: "settle without the row's lock", invariant: "I4",
		edits: []edit{
			{
				"tasks/postgres/settle.go",
				"from input i join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace\n    order by t.id for update of t`",
				"from input i join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace\n    order by t.id`",
			},
			{"tasks/postgres/settle.go", "settleLocked + ` skip locked` + settleMoves", "settleLocked + settleMoves"},
			{"tasks/postgres/place.go", "settleLocked + ` skip locked` + settleMoves", "settleLocked + settleMoves"},
		},
		test: []string{"./tasks/postgres", "-run=TestI4_AfterTheLockThenTheClock"},
	},
	{
		name: "ignore that a settle moved no row", invariant: "I2",
		edits: []edit{{
			"tasks/store.go",
			"return s.Status.Terminal() || s.Verdict == VerdictMissing",
			"return s.Status.Terminal() || s.Verdict != VerdictAccepted",
		}},
		test: simulation,
	},
	{
		name: "compare numbers as floating point", invariant: "I6",
		edits: []edit{{
			"tasks/httpapi/canonical.go",
			"short := strings.TrimRight(digits, \"0\")",
			"short := strings.TrimRight(digits[:min(len(digits), 15)], \"0\")",
		}},
		test: []string{"./tasks/httpapi", "-run=TestI6_"},
	},
	{
		name: "keep natural keys apart by route", invariant: "I6",
		edits: []edit{{"tasks/httpapi/idempotency.go", "return tasks.OperationNatural, natural, nil", "return operation, natural, nil"}},
		test:  []string{"./tasks/httpapi", "-run=TestI6_NaturalKeys"},
	},
	{
		name: "look in vain for what is no id", invariant: "I8",
		edits: []edit{{"tasks/httpapi/read.go", "return uuid.Nil, notFound()", "return uuid.Nil, invalidField(\"id\", \"is no id\")"}},
		test:  []string{"./tasks/httpapi", "-run=TestI8_NoRoute"},
	},
	{
		name: "sum what another workspace has spent", invariant: "I8",
		edits: []edit{{"tasks/httpapi/spend.go", "Workspace: c.workspace, By", "Workspace: \"w1\", By"}},
		test:  []string{"./tasks/httpapi", "-run=TestI8_TheDocument"},
	},
	{
		name: "an attempt that is heard of late stays unknown", invariant: "I7",
		edits: []edit{{
			"tasks/postgres/spendchange.go",
			"from judged j where (j.late).task_id is not null",
			"from judged j where false",
		}},
		test: []string{"./tasks/postgres", "-run=TestStore"},
	},
	{
		name: "sums leave out what is not folded", invariant: "I7",
		edits: []edit{{
			"tasks/postgres/spend.go",
			"from (select s.* from whole s union all select ` + spendMeasures + ` from fresh s) s",
			"from whole s",
		}},
		test: []string{"./tasks/postgres", "-run=TestStore"},
	},
}
