package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/pierrec/lz4/v4"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Places in a record batch of version 2.
const (
	batchLengthAt         = 8
	batchCRCAt            = 17
	batchAttributes       = 21
	batchLastDelta        = 23
	batchFirstTimestampAt = 27
	batchMaxTimestampAt   = 35
	batchSequenceAt       = 53
	batchHeaderBytes      = 61
	batchLengthBias       = 12 // base offset and length are not counted in the length
)

// batchSpec says what a batch holds.
type batchSpec struct {
	records   int
	valueSize int
	lz4       bool
}

func (s batchSpec) payload() int64 { return int64(s.records) * int64(s.valueSize) }

// encodeBatch writes a record batch (magic 2) of keyless records for an idempotent producer.
func encodeBatch(s batchSpec, producerID int64, epoch int16, now time.Time) ([]byte, error) {
	var records []byte
	for i := range s.records {
		records = appendRecord(records, int64(i), value(s.valueSize))
	}
	attributes := uint16(0)
	if s.lz4 {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		if _, err := w.Write(records); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		records, attributes = out.Bytes(), 3
	}
	b := make([]byte, batchHeaderBytes, batchHeaderBytes+len(records))
	be := binary.BigEndian
	be.PutUint32(b[batchLengthAt:], uint32(batchHeaderBytes-batchLengthBias+len(records)))
	be.PutUint32(b[12:], ^uint32(0)) // partition leader epoch: unknown
	b[16] = 2
	be.PutUint16(b[batchAttributes:], attributes)
	be.PutUint32(b[batchLastDelta:], uint32(s.records-1))
	be.PutUint64(b[batchFirstTimestampAt:], uint64(now.UnixMilli()))
	be.PutUint64(b[batchMaxTimestampAt:], uint64(now.UnixMilli()))
	be.PutUint64(b[43:], uint64(producerID))
	be.PutUint16(b[51:], uint16(epoch))
	be.PutUint32(b[57:], uint32(s.records))
	b = append(b, records...)
	setSequence(b, 0)
	return b, nil
}

// setSequence gives a batch its base sequence and the checksum that follows from it.
func setSequence(batch []byte, sequence int32) {
	binary.BigEndian.PutUint32(batch[batchSequenceAt:], uint32(sequence))
	binary.BigEndian.PutUint32(batch[batchCRCAt:], crc32.Checksum(batch[batchAttributes:], castagnoli))
}

// advanceTimestamps moves a batch's first and largest timestamp; its checksum is then to be set anew.
func advanceTimestamps(batch []byte, millis int64) {
	for _, at := range []int{batchFirstTimestampAt, batchMaxTimestampAt} {
		binary.BigEndian.PutUint64(batch[at:], binary.BigEndian.Uint64(batch[at:])+uint64(millis))
	}
}

func appendRecord(b []byte, offsetDelta int64, value []byte) []byte {
	var body []byte
	body = append(body, 0)              // attributes
	body = binary.AppendVarint(body, 0) // timestamp delta
	body = binary.AppendVarint(body, offsetDelta)
	body = binary.AppendVarint(body, -1) // no key
	body = binary.AppendVarint(body, int64(len(value)))
	body = append(body, value...)
	body = binary.AppendVarint(body, 0) // no headers
	b = binary.AppendVarint(b, int64(len(body)))
	return append(b, body...)
}

var random = rand.New(rand.NewPCG(1, 2))

// value is JSON-like text of a given size, which LZ4 brings to about half.
func value(size int) []byte {
	var b []byte
	for len(b) < size {
		b = fmt.Appendf(b, `{"id":%d,"user":"u%07d","action":"view","sum":%d.%02d,"token":"%016x"}`,
			random.Uint32(), random.IntN(1e7), random.IntN(1e4), random.IntN(100), random.Uint64())
	}
	return b[:size]
}

// walkBatches counts the records of fetched bytes by their batch headers, and the bytes of these batches, and says where
// to go on. The last batch of an answer may be cut: it does not count, as a client has to fetch it again.
func walkBatches(b []byte) (records, whole, next int64, err error) {
	next = -1
	for len(b) >= batchHeaderBytes {
		size := int(binary.BigEndian.Uint32(b[batchLengthAt:])) + batchLengthBias
		if size < batchHeaderBytes || b[16] != 2 {
			return records, whole, next, fmt.Errorf("not a record batch of version 2 in an answer to Fetch")
		}
		if size > len(b) {
			break
		}
		delta := int64(binary.BigEndian.Uint32(b[batchLastDelta:]))
		next = int64(binary.BigEndian.Uint64(b)) + delta + 1
		records += delta + 1
		whole += int64(size)
		b = b[size:]
	}
	return records, whole, next, nil
}
