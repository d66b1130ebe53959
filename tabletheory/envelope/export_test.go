package envelope

// What the vectors record and callers do not see.
var (
	AppendValue = appendValue
	ParseValue  = parseValue
)

// AdditionalData returns the additional data of AES-GCM for an attribute.
func (l Location) AdditionalData(attribute string) ([]byte, error) {
	return l.additionalData(attribute)
}
