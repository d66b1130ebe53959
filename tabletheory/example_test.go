package tabletheory_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/tabletheory"
)

// Song is an item of the table that the environment names. The songs of an
// artist are sorted by title, the songs of a genre by year.
type Song struct {
	Artist string `theorydb:"pk"`
	Title  string `theorydb:"sk"`

	Genre string `theorydb:"index:by-genre,pk,sparse"`
	Year  int    `theorydb:"index:by-genre,sk"`

	Length Length    `theorydb:"attr:seconds"`
	Tags   []string  `theorydb:"set,omitempty"`
	Added  time.Time `theorydb:"created_at"`
}

func (Song) TableName() string { return os.Getenv("SONGS_TABLE") }

// Length is the duration of a song, written as 3:15.
type Length struct{ Seconds int }

func (l Length) String() string { return fmt.Sprintf("%d:%02d", l.Seconds/60, l.Seconds%60) }

// lengths stores a Length as a number.
func lengths() tabletheory.Option {
	return tabletheory.WithConverter(
		func(l Length) (types.AttributeValue, error) {
			return &types.AttributeValueMemberN{Value: strconv.Itoa(l.Seconds)}, nil
		},
		func(av types.AttributeValue) (Length, error) {
			n, ok := av.(*types.AttributeValueMemberN)
			if !ok {
				return Length{}, errors.New("a length is a number of seconds")
			}
			seconds, err := strconv.Atoi(n.Value)
			return Length{seconds}, err
		},
	)
}

// songs returns an embedded DynamoDB with a table of songs. A real program would
// use tabletheory.Open, or New with the SDK's client.
func songs(ctx context.Context) (db *tabletheory.DB, closeTable func() error) {
	os.Setenv("SONGS_TABLE", "songs")
	api := localdynamo.OpenMemory(localdynamo.Options{})
	db = tabletheory.New(api, lengths())
	if err := db.EnsureTable(ctx, Song{}); err != nil {
		log.Fatal(err)
	}
	return db, api.Close
}

// Declare a model, create its table, and write and read items.
func Example() {
	ctx := context.Background()
	db, closeTable := songs(ctx)
	defer closeTable()
	table, err := tabletheory.NewTable[Song](db)
	if err != nil {
		log.Fatal(err)
	}

	song := Song{Artist: "Nina Simone", Title: "Sinnerman", Genre: "jazz", Year: 1965, Length: Length{10*60 + 20}, Tags: []string{"live"}}
	if err := table.Put(ctx, &song, tabletheory.IfNotExists()); err != nil {
		log.Fatal(err)
	}
	if err := table.Put(ctx, &song, tabletheory.IfNotExists()); errors.Is(err, tabletheory.ErrConditionFailed) {
		fmt.Println("it is there already")
	}

	song, err = table.Update(ctx, song, func(u *tabletheory.UpdateBuilder) {
		u.Set("Year", 1966).Add("Tags", []string{"long"})
	}, tabletheory.Condition("Year", "=", 1965))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(song.Year, strings.Join(song.Tags, " and "), song.Length)

	if err := table.Delete(ctx, song); err != nil {
		log.Fatal(err)
	}
	if _, err := table.Get(ctx, "Nina Simone", "Sinnerman"); errors.Is(err, tabletheory.ErrItemNotFound) {
		fmt.Println("it is gone")
	}
	// Output:
	// it is there already
	// 1966 live and long 10:20
	// it is gone
}

// Query a secondary index, newest first, page by page. The cursor of a page is
// only valid for the same query.
func ExampleDB_Model_index() {
	ctx := context.Background()
	db, closeTable := songs(ctx)
	defer closeTable()
	for year, title := range []string{"Blue", "Green", "Yellow", "Orange", "Red"} {
		if err := db.Model(&Song{Artist: "Ann", Title: title, Genre: "folk", Year: 2020 + year}).Create(); err != nil {
			log.Fatal(err)
		}
	}

	var cursor string
	for {
		var songs []Song
		page, err := db.Model(Song{}).Index("by-genre").
			Where("Genre", "=", "folk").Where("Year", ">=", 2021).
			OrderBy("Year", "DESC").
			Limit(3).Cursor(cursor).
			AllPaginated(&songs)
		if err != nil {
			log.Fatal(err)
		}
		for _, song := range songs {
			fmt.Print(song.Year, " ", song.Title, ". ")
		}
		fmt.Println("More:", page.HasMore)
		if cursor = page.NextCursor; !page.HasMore {
			break
		}
	}
	// Output:
	// 2024 Red. 2023 Orange. 2022 Yellow. More: true
	// 2021 Green. More: false
}

// Encode the values of a type in a custom way, in items, conditions and filters.
func ExampleWithConverter() {
	ctx := context.Background()
	api := localdynamo.OpenMemory(localdynamo.Options{})
	defer api.Close()
	os.Setenv("SONGS_TABLE", "songs")
	db := tabletheory.New(api, lengths())

	item, err := db.MarshalItem(ctx, Song{Artist: "Ann", Title: "Red", Length: Length{195}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(item["seconds"].(*types.AttributeValueMemberN).Value)

	var song Song
	if err := db.UnmarshalItem(ctx, item, &song); err != nil {
		log.Fatal(err)
	}
	fmt.Println(song.Length)
	// Output:
	// 195
	// 3:15
}

// Voucher is valid until Expires. DynamoDB deletes it within days after that;
// until then it can be read.
type Voucher struct {
	Owner   string    `theorydb:"pk"`
	Code    string    `theorydb:"sk"`
	Expires time.Time `theorydb:"ttl"`
}

func (Voucher) TableName() string { return "vouchers" }

// Let DynamoDB delete expired items. A ttl is stored as epoch seconds. It is for
// garbage collection: readers must check the expiry themselves.
func ExampleDB_Model_timeToLive() {
	ctx := context.Background()
	api := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
	defer api.Close()
	db := tabletheory.New(api)
	if err := db.EnsureTable(ctx, Voucher{}); err != nil { // enables TTL
		log.Fatal(err)
	}
	now := time.Now()
	for code, lifetime := range map[string]time.Duration{"OLD": -time.Minute, "NEW": time.Hour} {
		if err := db.Model(&Voucher{Owner: "ann", Code: code, Expires: now.Add(lifetime)}).Create(); err != nil {
			log.Fatal(err)
		}
	}

	var stored, good []Voucher
	if err := db.Model(Voucher{}).Where("Owner", "=", "ann").All(&stored); err != nil {
		log.Fatal(err)
	}
	if err := db.Model(Voucher{}).Where("Owner", "=", "ann").Filter("Expires", ">", now).All(&good); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(stored), "stored,", len(good), "good:", good[0].Code)
	// Output: 2 stored, 1 good: NEW
}
