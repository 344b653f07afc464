// Produces idempotently, runs transactions over three partitions, and reads what is committed: with generated stubs alone.
//
//	./generate.sh && go run . [ADDRESS [TOPIC]]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	pb "oncelog/v1"
)

const partitions = 3

func main() {
	address, topic := "localhost:9092", "from-go"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if len(os.Args) > 2 {
		topic = os.Args[2]
	}
	cluster := NewCluster(address)
	defer cluster.Close()
	if err := run(context.Background(), cluster, topic); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cluster *Cluster, topic string) error {
	if err := createTopic(ctx, cluster, topic); err != nil {
		return err
	}
	if err := produceTwice(ctx, cluster, topic); err != nil {
		return err
	}
	session, err := begin(ctx, cluster, "example-"+topic)
	if err != nil {
		return err
	}
	if err := session.transaction(ctx, topic, "wrong", pb.TransactionOutcome_TRANSACTION_OUTCOME_ABORTED); err != nil {
		return err
	}
	if err := session.transaction(ctx, topic, "right", pb.TransactionOutcome_TRANSACTION_OUTCOME_COMMITTED); err != nil {
		return err
	}
	return readAll(ctx, cluster, topic)
}

func createTopic(ctx context.Context, cluster *Cluster, topic string) error {
	request := &pb.CreateTopicRequest{Topic: topic, Partitions: partitions, IfNotExists: true, TimeoutMs: 10_000}
	_, err := Call(ctx, cluster, pb.NewPartitionLeaderClient, pb.PartitionLeaderClient.CreateTopic, request)
	return err
}

func produce(ctx context.Context, cluster *Cluster, request *pb.ProduceRecordsRequest) (*pb.ProduceRecordsReply, error) {
	return Call(ctx, cluster, pb.NewPartitionLeaderClient, pb.PartitionLeaderClient.ProduceRecords, request)
}

func initProducerID(ctx context.Context, cluster *Cluster, request *pb.InitProducerIdRequest) (*pb.InitProducerIdReply, error) {
	return Call(ctx, cluster, pb.NewCoordinatorClient, pb.CoordinatorClient.InitProducerId, request)
}

func nonce() string { return fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()) }

// A record's time is chosen once: a request that is sent again must be the same.
func records(values ...string) []*pb.Record {
	var made []*pb.Record
	for _, value := range values {
		made = append(made, &pb.Record{Value: []byte(value), TimestampMs: time.Now().UnixMilli()})
	}
	return made
}

// produceTwice sends a request again, as after a lost answer: the records are in the log once.
func produceTwice(ctx context.Context, cluster *Cluster, topic string) error {
	producer, err := initProducerID(ctx, cluster, &pb.InitProducerIdRequest{})
	if err != nil {
		return err
	}
	request := &pb.ProduceRecordsRequest{
		Topic: topic, Partition: 0, Records: records("event 0", "event 1"),
		ProducerId: producer.ProducerId, ProducerEpoch: producer.ProducerEpoch, BaseSequence: 0, SessionToken: producer.SessionToken,
	}
	for range 2 {
		reply, err := produce(ctx, cluster, request)
		if err != nil {
			return err
		}
		fmt.Printf("wrote at %d, duplicate: %t\n", reply.BaseOffset, reply.Duplicate)
	}
	return nil
}

// Session is a transactional id whose older sessions are fenced, and which numbers its transactions.
type Session struct {
	cluster *Cluster
	id      string
	known   *pb.InitProducerIdReply
	txnNo   int64
}

func begin(ctx context.Context, cluster *Cluster, id string) (*Session, error) {
	request := &pb.InitProducerIdRequest{TransactionalId: id, TransactionTimeoutMs: 60_000, Nonce: nonce()}
	known, err := initProducerID(ctx, cluster, request)
	if err != nil {
		return nil, err
	}
	return &Session{cluster: cluster, id: id, known: known, txnNo: known.NextTxnNo}, nil
}

func (s *Session) transaction(ctx context.Context, topic, word string, outcome pb.TransactionOutcome) error {
	for partition := range int32(partitions) {
		request := &pb.ProduceRecordsRequest{
			Topic: topic, Partition: partition, Records: records(word),
			// Sequences begin at 0 in each partition of each transaction.
			ProducerId: s.known.ProducerId, ProducerEpoch: s.known.ProducerEpoch, BaseSequence: 0,
			TransactionalId: s.id, TxnNo: s.txnNo, SessionToken: s.known.SessionToken,
		}
		if _, err := produce(ctx, s.cluster, request); err != nil {
			return err
		}
	}
	request := &pb.EndTransactionRequest{
		Name: &pb.TransactionName{
			TransactionalId: s.id, TxnShard: s.known.TxnShard, TxnProducerId: s.known.ProducerId, TxnNo: s.txnNo,
			ProducerEpoch: s.known.ProducerEpoch, SessionToken: s.known.SessionToken,
		},
		Outcome: outcome, Wait: pb.EndWait_END_WAIT_VISIBLE,
	}
	reply, err := Call(ctx, s.cluster, pb.NewCoordinatorClient, pb.CoordinatorClient.EndTransaction, request)
	if err != nil {
		return err
	}
	if reply.Outcome != outcome {
		return errors.New("somebody else has decided the transaction: " + reply.Outcome.String())
	}
	fmt.Printf("transaction %d: %s\n", s.txnNo, reply.Outcome)
	s.txnNo++
	return nil
}

// readAll reads each partition to its last stable offset: nothing aborted, nothing of an open transaction.
func readAll(ctx context.Context, cluster *Cluster, topic string) error {
	for partition := range int32(partitions) {
		request := &pb.FetchRecordsRequest{
			Topic: topic, Partition: partition, IsolationLevel: pb.IsolationLevel_ISOLATION_LEVEL_READ_COMMITTED, MaxWaitMs: 500,
		}
		for {
			reply, err := Call(ctx, cluster, pb.NewPartitionLeaderClient, pb.PartitionLeaderClient.FetchRecords, request)
			if err != nil {
				return err
			}
			for _, record := range reply.Records {
				fmt.Printf("read %d/%d: %s\n", partition, record.Offset, record.Value)
			}
			if request.Offset = reply.NextOffset; request.Offset >= reply.LastStableOffset {
				break
			}
		}
	}
	return nil
}
