package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	million = 1_000_000
	batch   = 25      // items per BatchWriteItem, DynamoDB's limit
	reads   = 100_000 // of random items
)

// measureMillion fills each server with a million items of 100 bytes, restarts it,
// reads some of them, and prints memory and file sizes. It reads /proc, so memory is
// reported on Linux only.
func measureMillion(ctx context.Context, p plan, dir string) error {
	fmt.Printf("a million items of 100 bytes; memory is resident: anonymous, and file pages, which the kernel can reclaim\n")
	for _, s := range p.sides {
		if s.command == nil {
			continue
		}
		fmt.Println("\n" + s.title)
		if err := measureOne(ctx, s, filepath.Join(dir, s.name)); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	return nil
}

func measureOne(ctx context.Context, s side, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	command, err := s.command(ctx, dir)
	if err != nil {
		return err
	}
	server, _, err := startAndCall(ctx, command, creation)
	if err != nil {
		return err
	}
	err = fillMillion(ctx, server)
	if err = errors.Join(err, server.stop()); err != nil || !s.keeps {
		return err
	}
	size, err := folderSize(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	fmt.Printf("  file: %d MB\n", size>>20)
	server, took, err := startAndCall(ctx, command, operation{minResponse: 100, call: getSmall})
	if err != nil {
		return err
	}
	fmt.Printf("  restarted and answered a GetItem in %v\n", short(took))
	return errors.Join(readSome(ctx, server), server.stop())
}

func fillMillion(ctx context.Context, s server) error {
	if err := s.printMemory("empty"); err != nil {
		return err
	}
	to, began := dynamodb.New(clientOptions(s.address)), time.Now()
	order := rand.Perm(million)
	err := each(million/batch, func(i int) error { return putBatch(ctx, to, order[i*batch:(i+1)*batch]) })
	if err != nil {
		return err
	}
	fmt.Printf("  filled in %v\n", time.Since(began).Round(time.Second))
	return s.printMemory("filled")
}

func putBatch(ctx context.Context, to *dynamodb.Client, numbers []int) error {
	var puts []types.WriteRequest
	for _, n := range numbers {
		puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: small(n)}})
	}
	out, err := to.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*tableName: puts}})
	if err == nil && len(out.UnprocessedItems) > 0 {
		err = fmt.Errorf("BatchWriteItem: %d unprocessed items", len(out.UnprocessedItems[*tableName]))
	}
	return err
}

func readSome(ctx context.Context, s server) error {
	if err := s.printMemory("restarted"); err != nil {
		return err
	}
	to := dynamodb.New(clientOptions(s.address))
	if err := each(reads, func(int) error { return getSmall(ctx, to, rand.IntN(million)) }); err != nil {
		return err
	}
	return s.printMemory(fmt.Sprintf("%d read", reads))
}

// small is an item of 100 bytes.
func small(i int) item {
	key := smallKey(i)
	key["hits"], key["text"] = number("1"), str(strings.Repeat("t", 67))
	return key
}

func smallKey(i int) item { return item{"pk": str(fmt.Sprintf("ITEM#%010d", i)), "sk": str("META")} }

func getSmall(ctx context.Context, to api, i int) error {
	out, err := to.GetItem(ctx, &dynamodb.GetItemInput{TableName: tableName, Key: smallKey(i), ConsistentRead: aws.Bool(true)})
	if err == nil && out.Item == nil {
		err = fmt.Errorf("item %d is missing", i)
	}
	return err
}

func folderSize(folder string) (size int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	return size, err
}
