package site

// story is an article of the newspaper. Each tells one concept of the cache as something
// that happens in a bakery; Moral names the concept.
type story struct {
	Slug, Kicker, Title, Standfirst string
	// Picture is the name of an asset, Alt its description.
	Picture, Alt string
	Text         []string
	Moral        string
}

// stories returns the paper's articles, newest first.
func stories() []story {
	return []story{
		{
			Slug:       "the-window-and-the-oven",
			Kicker:     "Trade",
			Title:      "The window is faster than the oven",
			Standfirst: "A loaf takes an hour to bake and a moment to hand over. Most of a baker’s art is arranging for customers to need only the second.",
			Picture:    "window.svg", Alt: "A shop window with three loaves under a striped awning",
			Text: []string{
				"At Marrow & Daughter on Quay Street nobody has ever watched a loaf being baked to order. It could be done. The oven is in the back, the flour is dry, and Ada Marrow, who is the daughter, would see to it personally. It would take an hour, and the customer after you would wait two.",
				"Instead there is a window. What is in the window is what was baked last; you point, it is wrapped, you are out of the door before the bell has stopped. Ada reckons that a loaf from the window takes four seconds, of which three are weather.",
				"The window is not the point of the shop. The oven is the point of the shop. But it is the window that decides how long the queue is.",
			},
			Moral: "A stored page is served from memory in well under a millisecond. That is a cache hit (HIT). Only on a cache miss (MISS), when nothing is stored yet, does a visitor wait for the render.",
		},
		{
			Slug:       "one-loaf-forty-customers",
			Kicker:     "Queues",
			Title:      "One loaf, forty customers",
			Standfirst: "When the window is empty at opening time, the sensible thing is to light one oven, not forty.",
			Picture:    "queue.svg", Alt: "A queue of people in front of a single oven",
			Text: []string{
				"It happens on the first Monday of the year. The window is bare, the door opens, and forty people ask for the same rye at the same moment. The apprentice, who was new, began forty loaves.",
				"There was only ever going to be one rye that anybody wanted: the next one. Forty doughs in one small kitchen meant that all forty were late, and that the currant buns, which nobody had done anything wrong to, burned.",
				"Now the first customer’s order starts the oven and everyone else is told, truthfully, that it has been started. They wait as long as the first one does, and no longer. The branch across the harbour looks at the same order book, so it does not light its oven for the same loaf either.",
			},
			Moral: "However many requests arrive, on however many servers, only one holds the lease and renders the page. The others wait for it (single flight). Cache-Status calls them collapsed.",
		},
		{
			Slug:       "in-praise-of-yesterdays-loaf",
			Kicker:     "Opinion",
			Title:      "In praise of yesterday’s loaf",
			Standfirst: "It is a day old. It is also here. Our correspondent would like a sandwich now.",
			Picture:    "yesterday.svg", Alt: "A cut loaf next to a clock",
			Text: []string{
				"There is a kind of purist who, offered bread from this morning at four in the afternoon, asks when the next batch is due, and then stands there. I have stood behind this person.",
				"Ada’s rule is better. A loaf past its hour stays in the window at its place, and whoever asks for it gets it at once. But the asking rings a bell in the back, and a new one goes in. The next customer has it fresh, and nobody in the story has waited.",
				"Past its day, of course, it goes. There is a difference between a loaf that is a little old and one that could be used to hold a door.",
			},
			Moral: "After its freshness window a page is STALE. During the stale window it is still served immediately, and the first such request starts one regeneration in the background. That is stale-while-revalidate.",
		},
		{
			Slug:       "the-night-the-oven-failed",
			Kicker:     "Local",
			Title:      "The night the oven failed",
			Standfirst: "At two in the morning the flue came down. At seven the shop opened, and sold bread.",
			Picture:    "oven.svg", Alt: "A cold brick oven with a wisp of smoke",
			Text: []string{
				"The flue at Marrow & Daughter was laid in 1931 and lasted until last Thursday, when it chose the hour between the second dough and the first batch to lie down in the yard.",
				"There are two things to put in a window on such a morning. One is a card that says the oven is broken, which is true, and feeds nobody. The other is Wednesday’s bread. Ada put out the bread, sent for the mason, and tried the oven again every few minutes, with longer pauses as the night wore on.",
				"By nine the fire drew. Some customers remarked that the loaf was not the day’s best. None remarked that the shop had been shut, because it had not been.",
			},
			Moral: "If a render fails, the cache serves the last good copy: stale-if-error. It retries with exponential backoff, shared by all servers. Try it with the unreliable oven.",
		},
		{
			Slug:       "a-loaf-with-your-name-on-it",
			Kicker:     "Manners",
			Title:      "A loaf with your name on it",
			Standfirst: "Some bread is for the window. Some is for Mrs Pell, and it is nobody’s business what is in it.",
			Picture:    "name.svg", Alt: "A paper bag with a name tag",
			Text: []string{
				"Behind the counter, out of sight, is a shelf of paper bags with names on them. What is in a bag is between the name and the baker. One holds no salt, one has a candle, and one, every second Friday, has a key in it that I was asked not to write about.",
				"No bag has ever been put in the window. Not because anyone checks each loaf for secrets, but because a bag with a name goes to the shelf, always, before it is looked into. It is a better rule than being careful.",
				"The price is that such a loaf is made for you alone and you wait for it. Nobody has complained of receiving too little of other people’s bread.",
			},
			Moral: "A request with an unknown cookie bypasses the cache, and a response that sets a cookie or is private is never stored. Your order is such a page.",
		},
		{
			Slug:       "the-raisin-bun-affair",
			Kicker:     "Recall",
			Title:      "The raisin bun affair",
			Standfirst: "They were not raisins. Within a minute there was not a raisin bun to be had in any branch.",
			Picture:    "recall.svg", Alt: "A tray of buns with some missing",
			Text: []string{
				"At ten past eight a boy of nine pointed out that his raisin had legs. What followed is taught to apprentices on both sides of the harbour.",
				"Ada did not run from shop to shop counting buns. She wrote one line in the order book, “nothing with raisins that was baked before now”, and every branch reads the book before it reaches into the window. The bun in the oven at that very moment was covered too: it had been mixed from the same sack.",
				"The line was worth more than the running. Somewhere there is always one more tray than you remember.",
			},
			Moral: "A purge writes one durable mark, for a page, a tag or a prefix. It makes everything rendered before it stale or gone, on all servers, including renders that are still running.",
		},
		{
			Slug:       "last-tuesdays-recipe",
			Kicker:     "Second thoughts",
			Title:      "Last Tuesday’s recipe",
			Standfirst: "The new poppy plait was an improvement in every respect but the eating. The old one was back before lunch.",
			Picture:    "recipe.svg", Alt: "A stack of recipe cards with an arrow turning back",
			Text: []string{
				"The apprentice had ideas about the plait: less sugar, more poppy, a fourth strand. He was allowed a Tuesday. By half past ten the regulars were holding it up to the light.",
				"No harm was done, because in this house a recipe is never rubbed out. Each is a new card on top of the last, and to go back is to point at an older card. Ada pointed. She also put a pin through it, so that no clever hand would improve it again before she had spoken to everyone.",
				"The fourth strand is still in the box, and some day its hour may come.",
			},
			Moral: "Every render is a new generation, and earlier ones are kept for a while. A rollback makes an earlier generation current again in one step, and a pin keeps it current.",
		},
	}
}
