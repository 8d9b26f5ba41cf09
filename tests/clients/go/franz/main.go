// franz-go against a broker: franz HOST:PORT SCENARIO. It ends with 0 if all went as it should, and says what did not.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 4
	records    = 100
)

var scenarios = map[string]func(*stage){
	"records":      produceAndConsume,
	"groups":       shareInGroups,
	"transactions": consumeTransformProduce,
	"admin":        administer,
}

func main() {
	log.SetFlags(log.Lshortfile)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topic := fmt.Sprintf("franz-%s-%d", os.Args[2], time.Now().UnixNano())
	s := &stage{ctx: ctx, seed: os.Args[1], topic: topic, out: topic + "-out"}
	s.admin = kadm.NewClient(s.client())
	_, err := s.admin.CreateTopics(ctx, partitions, 1, nil, s.topic, s.out)
	must(err)
	scenarios[os.Args[2]](s)
}

type stage struct {
	ctx              context.Context
	seed, topic, out string
	admin            *kadm.Client
}

func (s *stage) client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(s.seed))...)
	must(err)
	return client
}

func (s *stage) reader(topic string, options ...kgo.Opt) *kgo.Client {
	fromStart := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	return s.client(append(options, kgo.ConsumeTopics(topic), fromStart)...)
}

// fill writes records with the numbers from 0 on as their values.
func (s *stage) fill(codec kgo.CompressionCodec) {
	producer := s.client(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(s.topic))
	defer producer.Close()
	for number := range records {
		value := fmt.Sprint(number)
		record := kgo.KeyStringRecord(value, value)
		record.Headers = []kgo.RecordHeader{{Key: "codec", Value: []byte(fmt.Sprint(codec))}}
		producer.Produce(s.ctx, record, func(_ *kgo.Record, err error) { must(err) })
	}
	must(producer.Flush(s.ctx))
}

func (s *stage) read(client *kgo.Client, count int) (values []string) {
	for len(values) < count {
		fetched := client.PollFetches(s.ctx)
		must(fetched.Err())
		fetched.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

func produceAndConsume(s *stage) {
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for _, codec := range codecs {
		s.fill(codec)
	}
	reader := s.reader(s.topic)
	defer reader.Close()
	seen := map[string]int{}
	for _, value := range s.read(reader, records*len(codecs)) {
		seen[value]++
	}
	for number := range records {
		expect(seen[fmt.Sprint(number)], len(codecs))
	}
}

func shareInGroups(s *stage) {
	s.fill(kgo.NoCompression())
	protocols := map[string]kgo.Opt{
		"range":       kgo.Balancers(kgo.RangeBalancer()),
		"roundrobin":  kgo.Balancers(kgo.RoundRobinBalancer()),
		"sticky":      kgo.Balancers(kgo.StickyBalancer()),
		"cooperative": kgo.Balancers(kgo.CooperativeStickyBalancer()),
		"consumer":    kgo.WithContext(context.WithValue(s.ctx, "opt_in_kafka_next_gen_balancer_beta", true)),
	}
	for name, protocol := range protocols {
		s.shareIn(s.topic+"-"+name, protocol)
	}
}

// shareIn lets two members of a group read everything between them, and checks what they have committed.
func (s *stage) shareIn(group string, protocol kgo.Opt) {
	total := make(chan int, 1000)
	ctx, stop := context.WithCancel(s.ctx)
	var members sync.WaitGroup
	for range 2 {
		member := s.reader(s.topic, kgo.ConsumerGroup(group), kgo.HeartbeatInterval(200*time.Millisecond), protocol)
		members.Add(1)
		go func() {
			defer members.Done()
			defer member.Close()
			for ctx.Err() == nil {
				fetched := member.PollFetches(ctx)
				must(member.CommitUncommittedOffsets(s.ctx))
				total <- fetched.NumRecords()
			}
		}()
	}
	for count := 0; count < records; {
		select {
		case read := <-total:
			count += read
		case <-s.ctx.Done():
			log.Fatalf("group %s read %d of %d records", group, count, records)
		}
	}
	stop()
	members.Wait()
	committed, err := s.admin.FetchOffsets(s.ctx, group)
	must(err)
	sum := int64(0)
	committed.Each(func(each kadm.OffsetResponse) { sum += each.At })
	expect(sum, int64(records))
}

func consumeTransformProduce(s *stage) {
	s.fill(kgo.NoCompression())
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(s.seed), kgo.TransactionalID(s.topic), kgo.ConsumerGroup(s.topic), kgo.ConsumeTopics(s.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	must(err)
	for copied := 0; copied < records; {
		fetched := session.PollFetches(s.ctx)
		must(fetched.Err())
		must(session.Begin())
		fetched.EachRecord(func(record *kgo.Record) {
			session.Produce(s.ctx, &kgo.Record{Topic: s.out, Value: record.Value}, nil)
		})
		committed, err := session.End(s.ctx, kgo.TryCommit)
		must(err)
		expect(committed, true)
		copied += fetched.NumRecords()
	}
	session.Close()

	aborted := s.client(kgo.TransactionalID(s.out), kgo.DefaultProduceTopic(s.out))
	defer aborted.Close()
	must(aborted.BeginTransaction())
	must(aborted.ProduceSync(s.ctx, kgo.StringRecord("aborted")).FirstErr())
	must(aborted.EndTransaction(s.ctx, kgo.TryAbort))
	must(aborted.BeginTransaction())
	must(aborted.ProduceSync(s.ctx, kgo.StringRecord("the end")).FirstErr())
	must(aborted.EndTransaction(s.ctx, kgo.TryCommit))

	reader := s.reader(s.out, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer reader.Close()
	for _, value := range s.read(reader, records+1) {
		if value == "aborted" {
			log.Fatal("an aborted record was read")
		}
	}
}

func administer(s *stage) {
	s.fill(kgo.NoCompression())
	topics, err := s.admin.ListTopics(s.ctx, s.topic)
	must(err)
	expect(len(topics[s.topic].Partitions), partitions)
	_, err = s.admin.CreatePartitions(s.ctx, 1, s.topic)
	must(err)
	ends, err := s.admin.ListEndOffsets(s.ctx, s.topic)
	must(err)
	sum := int64(0)
	ends.Each(func(end kadm.ListedOffset) { sum += end.Offset })
	expect(sum, int64(records))

	retention := "7200000"
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}
	altered, err := s.admin.AlterTopicConfigs(s.ctx, change, s.topic)
	must(err)
	must(altered[0].Err)
	described, err := s.admin.DescribeTopicConfigs(s.ctx, s.topic)
	must(err)
	for _, config := range described[0].Configs {
		if config.Key == "retention.ms" {
			expect(config.MaybeValue(), retention)
		}
	}

	cut := make(kadm.Offsets)
	cut.AddOffset(s.topic, 0, 2, -1)
	deleted, err := s.admin.DeleteRecords(s.ctx, cut)
	must(err)
	must(deleted.Error())
	_, err = s.admin.DescribeAllLogDirs(s.ctx, nil)
	must(err)
	_, err = s.admin.DescribeProducers(s.ctx, ends.Offsets().TopicsSet())
	must(err)
	_, err = s.admin.ListTransactions(s.ctx, nil, nil)
	must(err)
	gone, err := s.admin.DeleteTopics(s.ctx, s.topic, s.out)
	must(err)
	must(gone.Error())
}

func must(err error) {
	if err != nil {
		_ = log.Output(2, err.Error())
		os.Exit(1)
	}
}

func expect[T comparable](found, expected T) {
	if found != expected {
		_ = log.Output(2, fmt.Sprintf("%v is not %v", found, expected))
		os.Exit(1)
	}
}
