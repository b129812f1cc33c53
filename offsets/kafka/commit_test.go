package kafka

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// franz-go fills in the names, except where a rebalance passed the commit while it was on its way.
func TestAnswersAreFoundByTopicID(t *testing.T) {
	req, resp := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrOffsetCommitResponse()
	for i, name := range []string{"a", "b"} {
		asked, answer := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitResponseTopic()
		asked.Topic, asked.TopicID = name, [16]byte{byte(i + 1)}
		answer.TopicID = asked.TopicID
		answer.Partitions = append(answer.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: 7, ErrorCode: int16(i)})
		req.Topics = append(req.Topics, asked)
		resp.Topics = append([]kmsg.OffsetCommitResponseTopic{answer}, resp.Topics...) // in another order
	}
	want := map[partition]int16{{"a", 7}: 0, {"b", 7}: 1}
	if got := answers(req, resp); !maps.Equal(got, want) {
		t.Errorf("answers = %v, want %v", got, want)
	}
}
