package storetest

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func piece(task uuid.UUID, version int64, index int, text string) tasks.LivePiece {
	return tasks.LivePiece{TaskID: task, Version: version, Attempt: int(version) + 10, Index: index, Tokens: 1, Text: text}
}

func (k *kit) publish(pieces ...tasks.LivePiece) {
	k.Helper()
	if err := k.Live.Publish(k.ctx, pieces); err != nil {
		k.Fatalf("publish: %v", err)
	}
}

func (k *kit) drop(task uuid.UUID, version int64) {
	k.Helper()
	if err := k.Live.Drop(k.ctx, []tasks.Assignment{{TaskID: task, Workspace: workspace, Version: version}}); err != nil {
		k.Fatalf("drop: %v", err)
	}
}

func (k *kit) live(cursors ...tasks.LiveCursor) []tasks.LivePiece {
	k.Helper()
	out, err := k.Live.Live(k.ctx, cursors)
	if err != nil {
		k.Fatalf("live: %v", err)
	}
	return out
}

// wantLive wants what a reader gets that has come so far.
func (k *kit) wantLive(c tasks.LiveCursor, want ...tasks.LivePiece) {
	k.Helper()
	if got := k.live(c); !slices.Equal(got, want) {
		k.Fatalf("a reader at %d of version %d of the task got\n%+v, want\n%+v", c.Index, c.Version, got, want)
	}
}

var liveTests = []test{
	{"a_live_text_is_read_from_where_its_reader_is", func(k *kit) {
		a, b := newID(), newID()
		p := []tasks.LivePiece{piece(a, 1, 0, "one "), piece(a, 1, 1, "two "), piece(a, 1, 2, "three"), piece(b, 4, 0, "four"), piece(b, 4, 1, "")}
		k.publish(p[3], p[0], p[1])
		k.publish(p[2], p[4])
		k.wantLive(tasks.LiveCursor{TaskID: a}, p[:3]...)
		k.wantLive(tasks.LiveCursor{TaskID: a, Version: 1, Index: 2}, p[2])
		k.wantLive(tasks.LiveCursor{TaskID: a, Version: 1, Index: 3})
		k.wantLive(tasks.LiveCursor{TaskID: newID()})
		got := k.live(tasks.LiveCursor{TaskID: b}, tasks.LiveCursor{TaskID: newID()}, tasks.LiveCursor{TaskID: a, Version: 1, Index: 1})
		if want := []tasks.LivePiece{p[3], p[4], p[1], p[2]}; !slices.Equal(got, want) {
			k.Fatalf("got %+v, want %+v", got, want)
		}
		k.publish()
		if got := k.live(); len(got) != 0 {
			k.Fatalf("got %+v of nothing", got)
		}
	}},
	{"a_live_text_published_again_is_there_once", func(k *kit) {
		id := newID()
		p := []tasks.LivePiece{piece(id, 1, 0, "a"), piece(id, 1, 1, "b"), piece(id, 1, 2, "c")}
		k.publish(p[:2]...)
		k.publish(p[:2]...)
		k.publish(p[1:]...)
		k.wantLive(tasks.LiveCursor{TaskID: id}, p...)
	}},
	{"a_live_text_is_of_one_attempt", func(k *kit) {
		id := newID()
		old, young := piece(id, 1, 0, "first try"), piece(id, 2, 0, "second")
		k.publish(old)
		k.publish(young)
		k.wantLive(tasks.LiveCursor{TaskID: id}, young)
		k.wantLive(tasks.LiveCursor{TaskID: id, Version: 1, Index: 1}, young)
		k.publish(piece(id, 1, 1, "the stale worker goes on")) // and is refused
		k.wantLive(tasks.LiveCursor{TaskID: id}, young)
		k.publish(piece(id, 3, 0, "third"), piece(id, 2, 1, "of the same batch"), piece(id, 4, 5, "fourth"))
		k.wantLive(tasks.LiveCursor{TaskID: id, Version: 2, Index: 1}, piece(id, 4, 5, "fourth"))
		k.wantLive(tasks.LiveCursor{TaskID: id, Version: 5, Index: 0}) // older than what the reader has
	}},
	{"a_live_text_goes_with_its_end", func(k *kit) {
		id, other := newID(), newID()
		k.publish(piece(id, 1, 0, "a"), piece(other, 1, 0, "b"))
		k.publish(piece(id, 2, 0, "c"))
		k.drop(id, 1) // a worker that comes late takes nothing from its successor
		k.wantLive(tasks.LiveCursor{TaskID: id}, piece(id, 2, 0, "c"))
		k.drop(id, 2)
		k.wantLive(tasks.LiveCursor{TaskID: id})
		k.drop(id, 2)
		k.wantLive(tasks.LiveCursor{TaskID: other}, piece(other, 1, 0, "b"))
		k.publish(piece(other, 2, 0, "d"))
		k.drop(other, 2) // and what it had hidden goes along
		k.wantLive(tasks.LiveCursor{TaskID: other})
	}},
	{"a_live_text_is_bounded_and_has_no_gap", func(k *kit) {
		id, half := newID(), strings.Repeat("x", tasks.MaxLiveText/2)
		kept := []tasks.LivePiece{piece(id, 1, 0, half), piece(id, 1, 1, half)}
		k.publish(kept[0])
		k.publish(kept[1], piece(id, 1, 2, "y"), piece(id, 1, 3, ""))
		k.wantLive(tasks.LiveCursor{TaskID: id}, kept...)
		other := newID()
		k.publish(piece(other, 1, 0, half))
		k.publish(piece(other, 1, 1, half+"y"))
		k.publish(piece(other, 1, 2, "small, but after a gap"))
		k.wantLive(tasks.LiveCursor{TaskID: other}, piece(other, 1, 0, half))
		k.publish(piece(other, 2, 0, "anew"))
		k.wantLive(tasks.LiveCursor{TaskID: other}, piece(other, 2, 0, "anew"))
	}},
	{"a_live_text_is_clean", func(k *kit) {
		id := newID()
		k.publish(piece(id, 1, 0, dirty("a")), piece(newID(), 1, 0, "b"))
		k.wantLive(tasks.LiveCursor{TaskID: id}, piece(id, 1, 0, cleaned("a")))
	}},
	{"a_live_text_of_many_is_read_at_once", func(k *kit) {
		const n = 2500
		var pieces []tasks.LivePiece
		var cursors []tasks.LiveCursor
		for range n {
			id := newID()
			pieces = append(pieces, piece(id, 1, 0, "a"), piece(id, 1, 1, "b"))
			cursors = append(cursors, tasks.LiveCursor{TaskID: id, Version: 1, Index: 1})
		}
		k.publish(pieces...)
		got := k.live(cursors...)
		if len(got) != n {
			k.Fatalf("%d pieces, want %d", len(got), n)
		}
		for i, p := range got {
			if p != pieces[2*i+1] {
				k.Fatalf("piece %d is %+v, want %+v", i, p, pieces[2*i+1])
			}
		}
	}},
	{"a_live_text_survives_a_lost_acknowledgement", func(k *kit) {
		id := newID()
		k.LoseAck()
		_ = k.Live.Publish(k.ctx, []tasks.LivePiece{piece(id, 1, 0, "a")})
		k.publish(piece(id, 1, 0, "a"), piece(id, 1, 1, "b"))
		k.wantLive(tasks.LiveCursor{TaskID: id}, piece(id, 1, 0, "a"), piece(id, 1, 1, "b"))
	}},
}
