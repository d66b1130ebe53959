// Package envelope encrypts single attributes of DynamoDB items (envelope encryption).
// The table, its backups and its stream reveal only the attributes' names and their
// approximate lengths.
//
// The attributes of one write share a data key, which is generated for that write and
// stored with each of them, sealed by a master key. The master key never leaves its
// [KeyProvider]: AWS KMS (package kmskeys), or a [KeyFile] for development.
//
//	master key (KMS) ──seals──► data key ──AES-256-GCM──► attribute value
//	                               │                            │
//	                              edk          nonce            ct
//
// An encrypted attribute is bound to its location. If it is modified, or copied to
// another attribute, item or table, opening it returns [ErrTampered]. Encryption does
// not detect that an attribute was removed, or replaced by an older value of the same
// attribute of the same item. Key attributes of tables and indexes cannot be encrypted,
// because DynamoDB must read them.
//
// # Format
//
// Version 1, which programs in any language can implement. The attribute is a map of
// exactly four members:
//
//	v      N  1
//	edk    B  the sealed data key, 1 to 6,144 bytes, as returned by its provider
//	nonce  B  12 random bytes, new for each attribute and write
//	ct     B  the AES-256-GCM ciphertext, with the tag of 16 bytes at its end
//
// The plaintext is the attribute's value in DynamoDB JSON, such as {"S":"x"}: an object
// of one member, whose name is the type. B is base64 (RFC 4648, section 4, padded), N is
// a string. Readers accept any equivalent JSON, up to 32 values deep. Writers write
// canonical JSON by RFC 8785: without white space, and with the members of M sorted by
// name in UTF-16 code units. In addition, N is the plain decimal that DynamoDB returns
// (no exponent, no redundant zeros or sign), and the members of a set are sorted by
// their JSON strings in UTF-16 code units. A set has at least one member and no
// duplicates, and NULL is true. NULL is encrypted like any value; an absent attribute
// is not encrypted.
//
// The additional data of AES-GCM encodes the location. With u32(n) for four bytes,
// big-endian, and lp(x) for u32(length of x in bytes) followed by x, it is
//
//	u32(1)                       the version of the format
//	lp(table name)               the name, even if the table is configured by ARN
//	u32(number of key attributes)  1 or 2
//	lp(name) lp(type) lp(value)  of the partition key, then of the sort key
//	lp(attribute name)
//
// where strings are UTF-8, the type is S, N or B, and the value is the string, the
// number in the form of the plaintext, or the bytes. spec/vectors/encryption.json has
// examples with the additional data and plaintext of each.
//
// Because the table name is bound, attributes of a table that is restored from a backup
// under another name cannot be opened there. Restore it under its own name, or read it
// with a model that has the old name.
//
// Package kmskeys gets edk from GenerateDataKey (AES_256) with the encryption context
// {"purpose": "tabletheory-envelope"}. For a [KeyFile] it is
//
//	u8(length of id) id nonce(12) AES-256-GCM(master key id, data key)
//
// where the length and the id are also the additional data.
package envelope
