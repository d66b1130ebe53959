package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/peer"
	"github.com/facetheory/isr/store"
)

// peerField is the test of the channel between the servers of a table: this test is another one.
func peerField() fieldTest {
	const secret = "peers-0123456789abcdef0123456789abcdef"
	tt := fleet("peer.address peer.secret", "peer: {address: 'FREE', secret: {file: DIR/secret}}", func(s *fieldServer, c *cloud) {
		at := netip.MustParseAddrPort(s.logged(`peers on ([0-9.:]+)`))
		s.until("the server announces its address", func() bool {
			out, err := c.tables.Query(s.Context(), &dynamodb.QueryInput{
				TableName: aws.String("pages"), KeyConditionExpression: aws.String("pk = :pk"),
				ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: "NODES"}},
			})
			if err != nil || len(out.Items) == 0 {
				return false
			}
			announced, _ := out.Items[0]["peer"].(*types.AttributeValueMemberS)
			return announced != nil && announced.Value == at.String()
		})
		another := func(secret string) *peer.Node {
			n, err := peer.New(peer.Config{Address: netip.MustParseAddrPort("127.0.0.1:1"), Secret: []byte(secret), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				s.Fatal(err)
			}
			s.Cleanup(n.Close)
			return n
		}
		var visits sync.WaitGroup
		defer visits.Wait()
		n, member := 0, another(secret)
		s.until("a response is marked as stored", func() bool {
			n++
			path := fmt.Sprint("/", n)
			visits.Go(func() { s.get(path) })
			return member.AwaitLease(s.Context(), at, store.Key{Text: strings.TrimPrefix(s.url, "http://") + path})
		})
		another(strings.ToUpper(secret)).AwaitLease(s.Context(), at, store.Key{Text: "example.com/"})
		s.until("the server refuses another secret", func() bool { return strings.Contains(s.log.String(), "refused a request of a peer") })
	})
	tt.origin = func(_ *countedSite, _ int, w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(100 * time.Millisecond): // a slow page
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "stored")
	}
	start := tt.prepare
	tt.prepare = func(s *fieldServer) {
		s.write("secret", secret)
		start(s)
	}
	return tt
}
