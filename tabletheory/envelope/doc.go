// Package envelope encrypts single attributes of DynamoDB items, so that
// whoever reads the table, a backup of it or its stream sees nothing but their
// names and about how long they are.
//
// The attributes of one write share a data key, which is made for that write and
// stored, sealed by a master key, with each of them. The master key never leaves
// its [KeyProvider]: AWS KMS (package kmskeys), or a [KeyFile] for development.
//
//	master key (KMS) ──seals──► data key ──AES-256-GCM──► attribute value
//	                               │                            │
//	                              edk          nonce            ct
//
// An encrypted attribute is bound to where it is stored. Copied to another
// attribute, item or table it cannot be opened, just as if it had been changed:
// [ErrTampered]. What the encryption cannot tell is that an attribute was
// removed, or replaced by an older value of the same attribute of the same item.
// Keys of tables and indexes cannot be encrypted; DynamoDB has to read them.
//
// # Format
//
// Version 1, for programs in any language. The attribute is a map of exactly
// four members:
//
//	v      N  1
//	edk    B  the sealed data key, 1 to 6,144 bytes, as its provider made it
//	nonce  B  12 random bytes, new for each attribute and write
//	ct     B  AES-256-GCM of the plaintext, with the tag of 16 bytes at its end
//
// The plaintext is the attribute's value in DynamoDB's JSON, such as
// {"S":"x"}: an object of one member, whose name is the type. B is in base64
// (RFC 4648, section 4, padded), N is a string. Readers take any JSON of that
// meaning, up to 32 values deep. Writers write the canonical one, of RFC 8785,
// which leaves nothing to choose: no white space, members of M in the order of
// their names by UTF-16 code units. What RFC 8785 leaves open: N is the plain
// decimal that DynamoDB returns (no exponent, no superfluous zero or sign), and
// the members of a set are in the order of their JSON strings by UTF-16 code
// units. A set has at least one member and none twice, and NULL is true.
// NULL is encrypted as every value is; an absent attribute is not.
//
// The additional data of AES-GCM say what stands where. With u32(n) for four
// bytes, the most significant one first, and lp(x) for u32(length of x in
// bytes) followed by x, they are
//
//	u32(1)                       the version of the format
//	lp(table name)               the name alone, even if the table is known by ARN
//	u32(number of key attributes)  1 or 2
//	lp(name) lp(type) lp(value)  of the partition key, then of the sort key
//	lp(attribute name)
//
// where strings are UTF-8, the type is S, N or B, and the value is the string,
// the number as the plaintext has it, or the bytes. testdata/vectors.json has
// examples, with the additional data and the plaintext of each.
//
// As the name of the table is bound, a table that was restored from a backup
// under another name cannot be opened there: restore it under its own name, or
// read it by a model that still has the old one's.
//
// Package kmskeys makes edk by GenerateDataKey (AES_256) with the encryption context
// {"purpose": "tabletheory-envelope"}. Of a [KeyFile] it is
//
//	u8(length of id) id nonce(12) AES-256-GCM(master key id, data key)
//
// where the length and the id are the additional data too.
package envelope
