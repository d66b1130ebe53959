package leak

import (
	"cmp"

	"github.com/facetheory/isr/internal/details"
)

// keyAdvice returns how a header becomes part of the key.
func keyAdvice(header string) string {
	switch header {
	case "Accept-Language":
		return "put the languages of the site in the key: headers: {Accept-Language: [en, de]}; and send Vary: Accept-Language"
	case "User-Agent", "Sec-Ch-Ua-Mobile":
		return "serve one page to all devices; or let a proxy in front set a header with a class (X-Device: mobile) and put that in the key: headers: {X-Device: [desktop, mobile]}"
	case "Hx-Request", "Hx-Boosted", "X-Requested-With", "X-Pjax", "Rsc":
		return "send Vary: " + header + ", and put the header in the key with the values that scripts send: headers: {" + header + `: ["", "` + cmp.Or(map[string]string{"X-Requested-With": "XMLHttpRequest", "Rsc": "1"}[header], "true") + `"]}`
	case "X-Inertia":
		return `send Vary: X-Inertia, as the adapters of Inertia do, and let its requests pass through: headers: {X-Inertia: ["", "*"]}`
	case "Turbo-Frame":
		return `send Vary: Turbo-Frame, and let its requests pass through: headers: {Turbo-Frame: ["", "*"]}; or, if frames may be taken from whole pages, {Turbo-Frame: [""]}`
	case "Origin":
		return "send Access-Control-Allow-Origin: * with pages that every site may read; otherwise send Vary: Origin, and list the sites in the key: headers: {Origin: [none, https://app.example.com]}, or vary: auto"
	}
	return "send Vary: " + header + ", and put the header in the key: headers: [" + header + "], or vary: auto"
}

// WhyNotCached explains a detail of Cache-Status, and returns what to change.
func WhyNotCached(detail string) (problem, do string) {
	d, ok := details.Of(detail)
	switch {
	case !ok:
		d = details.Detail{Meaning: "see detail=" + cmp.Or(detail, "(none)") + " in docs/cache-status.md", Advice: "see docs/cache-status.md"}
	case detail == "cookie": // these requests have none
		d = details.Detail{Meaning: "the site or a proxy adds a cookie to requests", Advice: "look at what is between the visitor and isr"}
	}
	return "not cached: " + d.Meaning, d.Do()
}
