// Calls of a cluster with generated stubs alone: each begins at one address, and goes where answers send it.

package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "oncelog/v1"
)

const (
	callTime = 20 * time.Second
	pause    = 100 * time.Millisecond
	pauseMax = time.Second
	tries    = 100
	replyMax = 64 << 20 // FetchRecords may answer with 16 MiB; gRPC takes 4 unless it is told
)

// Cluster is known by one address; others are learned from answers. It is for one goroutine.
type Cluster struct {
	first string
	conns map[string]*grpc.ClientConn
}

func NewCluster(address string) *Cluster {
	return &Cluster{first: address, conns: map[string]*grpc.ClientConn{}}
}

func (c *Cluster) Close() {
	for _, conn := range c.conns {
		conn.Close()
	}
}

// Of a cluster with TLS: credentials.NewTLS(...) here.
func (c *Cluster) at(address string) (*grpc.ClientConn, error) {
	if conn, known := c.conns[address]; known {
		return conn, nil
	}
	large := grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(replyMax))
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), large)
	if err == nil {
		c.conns[address] = conn
	}
	return conn, err
}

// Call returns the answer of whoever can give it: Call(ctx, c, pb.NewXClient, pb.XClient.Method, request) of a service X.
// The same request may be sent more than once, since an answer can be lost: it must be idempotent, as everything here is.
func Call[Client, Request, Reply any](
	ctx context.Context,
	c *Cluster,
	newClient func(grpc.ClientConnInterface) Client,
	method func(Client, context.Context, Request, ...grpc.CallOption) (Reply, error),
	request Request,
) (reply Reply, err error) {
	address, been, wait := c.first, map[string]bool{}, pause
	for range tries {
		been[address] = true
		conn, broken := c.at(address)
		if broken != nil {
			return reply, broken
		}
		var trailer metadata.MD
		bounded, cancel := context.WithTimeout(ctx, callTime)
		reply, err = method(newClient(conn), bounded, request, grpc.Trailer(&trailer))
		cancel()
		if err == nil || ctx.Err() != nil {
			return reply, err
		}
		detail := DetailOf(trailer)
		next := detail.GetGoTo()
		if next == "" && !mayRepeat(detail, err) {
			return reply, err
		}
		if next != "" && !been[next] {
			address = next
			continue
		}
		// From the beginning: also when two send to each other, as while a leader changes.
		time.Sleep(max(wait, time.Duration(detail.GetRetryAfterMs())*time.Millisecond))
		address, been, wait = c.first, map[string]bool{}, min(2*wait, pauseMax)
	}
	return reply, err
}

// Without a detail only what is a matter of the connection: a reply that is too large, or a method that is not there, stays so.
func mayRepeat(detail *pb.ErrorDetail, err error) bool {
	if detail != nil {
		return detail.Action == pb.ErrorAction_ERROR_ACTION_RETRY || detail.Action == pb.ErrorAction_ERROR_ACTION_REFRESH
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown:
		return true
	}
	return false
}

// DetailOf is what a server says of an error; nil when none spoke: then nobody knows what became of the call.
func DetailOf(trailer metadata.MD) *pb.ErrorDetail {
	detail := &pb.ErrorDetail{}
	found := trailer.Get("oncelog-error-bin")
	if len(found) == 0 || proto.Unmarshal([]byte(found[0]), detail) != nil {
		return nil
	}
	return detail
}
