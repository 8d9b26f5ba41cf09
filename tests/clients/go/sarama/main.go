// sarama against a broker: sarama HOST:PORT SCENARIO. It ends with 0 if all went as it should, and says what did not.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

const (
	partitions = 4
	records    = 100
)

var scenarios = map[string]func(*stage){
	"records":      produceAndConsume,
	"groups":       shareInGroups,
	"transactions": commitAndAbort,
	"admin":        administer,
}

func main() {
	log.SetFlags(log.Lshortfile)
	time.AfterFunc(time.Minute, func() { log.Fatal("it takes too long") })
	// sarama speaks the versions of the release that it is told: an old one, and the newest that it knows.
	for _, release := range []sarama.KafkaVersion{sarama.V2_1_0_0, sarama.MaxVersion} {
		topic := fmt.Sprintf("sarama-%s-%s-%d", os.Args[2], release, time.Now().UnixNano())
		s := &stage{seeds: os.Args[1:2], topic: topic, config: sarama.NewConfig()}
		s.config.Version = release
		s.config.Producer.Return.Successes = true
		s.config.Producer.RequiredAcks = sarama.WaitForAll
		s.config.Consumer.Offsets.Initial = sarama.OffsetOldest
		s.config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
		s.config.Consumer.Group.Rebalance.Retry.Backoff = 100 * time.Millisecond
		var err error
		s.admin, err = sarama.NewClusterAdmin(s.seeds, s.config)
		must(err)
		detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}
		must(s.admin.CreateTopic(topic, detail, false))
		scenarios[os.Args[2]](s)
	}
}

type stage struct {
	seeds  []string
	topic  string
	config *sarama.Config
	admin  sarama.ClusterAdmin
}

func (s *stage) fill(codec sarama.CompressionCodec) {
	config := *s.config
	config.Producer.Compression = codec
	producer, err := sarama.NewSyncProducer(s.seeds, &config)
	must(err)
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for number := range records {
		value := sarama.StringEncoder(fmt.Sprint(number))
		messages = append(messages, &sarama.ProducerMessage{Topic: s.topic, Key: value, Value: value})
	}
	must(producer.SendMessages(messages))
}

func produceAndConsume(s *stage) {
	codecs := []sarama.CompressionCodec{
		sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4,
		sarama.CompressionZSTD,
	}
	for _, codec := range codecs {
		s.fill(codec)
	}
	consumer, err := sarama.NewConsumer(s.seeds, s.config)
	must(err)
	defer consumer.Close()
	arrived := make(chan string)
	for partition := range int32(partitions) {
		reader, err := consumer.ConsumePartition(s.topic, partition, sarama.OffsetOldest)
		must(err)
		go func() {
			for message := range reader.Messages() {
				arrived <- string(message.Value)
			}
		}()
	}
	seen := map[string]int{}
	for range records * len(codecs) {
		seen[<-arrived]++
	}
	for number := range records {
		expect(seen[fmt.Sprint(number)], len(codecs))
	}
}

func shareInGroups(s *stage) {
	s.fill(sarama.CompressionNone)
	for _, strategy := range []sarama.BalanceStrategy{
		sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategyRoundRobin(), sarama.NewBalanceStrategySticky(),
	} {
		s.shareIn(s.topic+"-"+strategy.Name(), strategy)
	}
}

// shareIn lets two members of a group read everything between them, and checks what they have committed.
func (s *stage) shareIn(group string, strategy sarama.BalanceStrategy) {
	config := *s.config
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	ctx, stop := context.WithCancel(context.Background())
	reader := &claims{stop: stop}
	var members sync.WaitGroup
	for range 2 {
		member, err := sarama.NewConsumerGroup(s.seeds, group, &config)
		must(err)
		members.Add(1)
		go func() {
			defer members.Done()
			for ctx.Err() == nil {
				must(member.Consume(ctx, []string{s.topic}, reader))
			}
			must(member.Close())
		}()
	}
	members.Wait()
	asked := map[string][]int32{s.topic: {0, 1, 2, 3}}
	committed, err := s.admin.ListConsumerGroupOffsets(group, asked)
	must(err)
	sum := int64(0)
	for _, block := range committed.Blocks[s.topic] {
		sum += block.Offset
	}
	expect(sum, int64(records))
	must(s.admin.DeleteConsumerGroup(group))
}

type claims struct {
	read atomic.Int64
	stop context.CancelFunc
}

func (c *claims) Setup(sarama.ConsumerGroupSession) error { return nil }

func (c *claims) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *claims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			session.MarkMessage(message, "")
			if c.read.Add(1) >= records {
				c.stop()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func commitAndAbort(s *stage) {
	config := *s.config
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = s.topic
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(s.seeds, &config)
	must(err)
	defer producer.Close()
	send := func(text string) {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: s.topic, Partition: 0, Key: sarama.StringEncoder("one partition"), Value: sarama.StringEncoder(text),
		})
		must(err)
	}
	metadata := ""
	offsets := []*sarama.PartitionOffsetMetadata{{Partition: 0, Offset: 7, Metadata: &metadata}}
	must(producer.BeginTxn())
	send("aborted")
	must(producer.AbortTxn())
	must(producer.BeginTxn())
	send("committed")
	must(producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{s.topic: offsets}, s.topic))
	must(producer.CommitTxn())

	committed, err := s.admin.ListConsumerGroupOffsets(s.topic, map[string][]int32{s.topic: {0}})
	must(err)
	expect(committed.Blocks[s.topic][0].Offset, int64(7))
	reading := *s.config
	reading.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(s.seeds, &reading)
	must(err)
	defer consumer.Close()
	arrived := make(chan string)
	for partition := range int32(partitions) {
		reader, err := consumer.ConsumePartition(s.topic, partition, sarama.OffsetOldest)
		must(err)
		go func() {
			for message := range reader.Messages() {
				arrived <- string(message.Value)
			}
		}()
	}
	expect(<-arrived, "committed")
}

func administer(s *stage) {
	s.fill(sarama.CompressionNone)
	topics, err := s.admin.DescribeTopics([]string{s.topic})
	must(err)
	expect(len(topics[0].Partitions), partitions)
	must(s.admin.CreatePartitions(s.topic, partitions+1, nil, false))
	retention := "7200000"
	must(s.admin.AlterConfig(sarama.TopicResource, s.topic, map[string]*string{"retention.ms": &retention}, false))
	asked := sarama.ConfigResource{Type: sarama.TopicResource, Name: s.topic, ConfigNames: []string{"retention.ms"}}
	entries, err := s.admin.DescribeConfig(asked)
	must(err)
	expect(entries[0].Value, retention)
	must(s.admin.DeleteRecords(s.topic, map[int32]int64{0: 2}))
	_, _, err = s.admin.DescribeCluster()
	must(err)
	_, err = s.admin.ListConsumerGroups()
	must(err)
	_, err = s.admin.DescribeLogDirs([]int32{0})
	must(err)
	must(s.admin.DeleteTopic(s.topic))
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
