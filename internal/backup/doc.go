// Package backup copies the data folder of an embedded store, or one file of package localdynamo, while it is
// used, and makes a folder of the copy.
//
// A backup is one tar stream:
//
//	isr-backup.json   what follows, and the format of the folder
//	table.db          the engine's file, as of one moment
//	body/KEY          each stored body that the folder had at that moment, and some of later ones
//	end.json          how many there are, and the SHA-256 of all entries before
//
// Bodies are written before the rows that refer to them, and never change. So all bodies to which the copied table
// refers exist when it is copied; until the last one is copied, deletions of bodies wait (see
// [embedded.Disk.Hold]). Pages that are published while a backup runs are not in its table.
//
// Guarantees: memory is bounded. A stream without its end, or with a changed byte, is refused. Restoring writes
// beside the target, syncs, verifies, and gives the folder its name last.
package backup

// The files:
//
//	write.go             copies table and bodies
//	read.go, restore.go  verify a backup and make a folder of it
//	check.go             verifies a folder
//	serve.go             the same for commands on the socket of a process that has it open
