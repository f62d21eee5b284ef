// Reset of streams (RFC 6525), used as WebRTC uses it (RFC 8831 §6.7): the side whose incoming stream was reset resets its outgoing
// stream of this number too, and then the number is used again.
package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/pion/sctp"
)

// channel is a stream number in both directions.
type channel struct {
	stream   *sctp.Stream  // written to; nil from the reset until the number is used again
	accepted *sctp.Stream  // made by the remote's data after its reset
	waiting  []int         // messages for after the reset
	reading  chan struct{} // closed when the newest reader ends

	closed, ended, answered bool // our reset was asked for, the remote's was seen, ours was answered
}

// --- rounds --------------------------------------------------------------------------------------------------------

// keepToRound waits before message i until the resets of all earlier rounds are complete. In the middle of a round a stream is
// reset, if this side is the one that begins.
func (p *peer) keepToRound(i int) {
	length := p.opt.messages / (p.opt.resets + 1)
	round := min(i/length, p.opt.resets)
	for p.reused.Load() < int64(round) {
		time.Sleep(100 * time.Microsecond)
	}
	if p.opt.resetsBy == "self" && round < p.opt.resets && i%length == length/2 {
		p.reset([]uint16{uint16(round % p.opt.streams)})
	}
}

// reset resets our outgoing streams with these numbers.
func (p *peer) reset(ids []uint16) {
	p.writing.Lock()
	defer p.writing.Unlock()
	for _, id := range ids {
		p.close(p.channels[id])
	}
}

// close asks for the reset of our outgoing stream. pion sends the request after all that was written before.
func (p *peer) close(c *channel) {
	if c.closed {
		return
	}
	stream := c.stream
	c.stream, c.closed = nil, true
	p.closed.Add(1)
	if err := stream.Close(); err != nil {
		p.finish(fmt.Errorf("resetting stream %d: %w", stream.StreamIdentifier(), err))
	}
}

// onEnd is called when a reader met the end of its stream: the remote has reset it, and everything before was read.
func (p *peer) onEnd(id uint16) {
	if p.opt.resets == 0 {
		p.finish(fmt.Errorf("stream %d was reset", id))
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	c := p.channels[id]
	c.ended = true
	p.ended.Add(1)
	p.close(c)
	p.useAgain(id)
}

// onAnswered is called when the remote has performed our request.
func (p *peer) onAnswered(ids []uint16) {
	p.writing.Lock()
	defer p.writing.Unlock()
	for _, id := range ids {
		p.channels[id].answered = true
		p.useAgain(id)
	}
}

// onAccepted is called with a stream that the remote's data made. OpenStream may have returned the same stream before.
func (p *peer) onAccepted(id int, stream *sctp.Stream) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if c := p.channels[id]; c.stream != stream {
		if p.opt.resets == 0 {
			p.finish(fmt.Errorf("stream %d was made twice", id))
		}
		c.accepted = stream
		p.read(c, stream)
		p.useAgain(uint16(id))
	}
}

// useAgain goes on with a stream number when both directions are reset: with the stream that the remote's data made, or with
// --open-first with a new one. pion does not wait itself: whatever is written before the answer may get a TSN that the reset
// covers, and the answer sets the SSN of the new stream to 0 a second time.
func (p *peer) useAgain(id uint16) {
	c := p.channels[id]
	if !c.closed || !c.ended || !c.answered || c.accepted == nil && !p.opt.openFirst {
		return
	}
	stream := c.accepted
	if stream == nil {
		var err error
		if stream, err = p.association.OpenStream(id, sctp.PayloadTypeUnknown); err != nil {
			p.finish(fmt.Errorf("opening stream %d again: %w", id, err))
		}
		p.read(c, stream)
	}
	waiting := c.waiting
	*c = channel{stream: stream, reading: c.reading}
	for _, i := range waiting {
		if err := p.write(stream, i); err != nil {
			p.finish(err)
		}
	}
	p.reused.Add(1)
}

// read starts a reader, which begins when the reader of the previous stream of this number has ended.
func (p *peer) read(c *channel, stream *sctp.Stream) {
	before, done := c.reading, make(chan struct{})
	c.reading = done
	go func() {
		if before != nil {
			<-before
		}
		p.receiveStream(stream)
		close(done)
	}()
}

// --- requests in packets -------------------------------------------------------------------------------------------

const (
	reconfig      = 130
	resetOutgoing = 13
	response      = 16
	performed     = 1
)

// resets notes the RE-CONFIG chunks that pass. The link's lock guards it.
type resets struct {
	sent     map[uint32][]uint16 // streams by the sequence number of our request
	answers  [][]uint16          // streams whose reset was performed, in the packet that pion has
	answered func(ids []uint16)

	// With crossing, pion gets the remote's request only after its own request for the same streams has left.
	crossing bool
	reset    func(ids []uint16)
	held     []byte
	due      bool
	seen     []uint32 // sequence numbers of the remote's requests
	awaited  []uint16
}

// parameters calls visit for each parameter of each RE-CONFIG chunk.
func parameters(packet []byte, visit func(kind uint16, value []byte)) {
	for rest := packet[12:]; len(rest) >= 4; {
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if length < 4 || length > len(rest) {
			return
		}
		if rest[0] == reconfig {
			for list := rest[4:length]; len(list) >= 4; {
				size := int(binary.BigEndian.Uint16(list[2:]))
				if size < 4 || size > len(list) {
					return
				}
				visit(binary.BigEndian.Uint16(list), list[4:size])
				list = list[min((size+3)&^3, len(list)):]
			}
		}
		rest = rest[min((length+3)&^3, len(rest)):]
	}
}

// request returns the sequence number and the streams of an Outgoing SSN Reset Request.
func request(value []byte) (number uint32, ids []uint16) {
	for at := 12; at+2 <= len(value); at += 2 {
		ids = append(ids, binary.BigEndian.Uint16(value[at:]))
	}
	return binary.BigEndian.Uint32(value), ids
}

func (r *resets) note(packet []byte, in bool) {
	parameters(packet, func(kind uint16, value []byte) {
		switch {
		case !in && kind == resetOutgoing && len(value) >= 12:
			number, ids := request(value)
			r.sent[number] = ids
			r.due = r.due || r.held != nil && slices.Equal(ids, r.awaited)
		case in && kind == response && len(value) >= 8 && binary.BigEndian.Uint32(value[4:]) == performed:
			number := binary.BigEndian.Uint32(value)
			if ids := r.sent[number]; ids != nil {
				r.answers = append(r.answers, ids)
				delete(r.sent, number)
			}
		}
	})
}

// processed is called when pion asks for the next packet: it has processed the answers in the packet before.
func (r *resets) processed() {
	for _, ids := range r.answers {
		go r.answered(ids)
	}
	r.answers = nil
}

// hold holds back a packet with a request, and asks for a reset of the same streams at this moment.
func (r *resets) hold(packet []byte) bool {
	held := false
	parameters(packet, func(kind uint16, value []byte) {
		if !r.crossing || kind != resetOutgoing || len(value) < 12 {
			return
		}
		number, ids := request(value)
		switch {
		case !slices.Contains(r.seen, number):
			r.seen = append(r.seen, number)
			r.held, r.awaited, r.due = slices.Clone(packet), ids, false
			go r.reset(ids)
			held = true
		case r.held != nil:
			held = true // a retransmission of the request that is held
		}
	})
	return held
}

func (r *resets) isDue() bool { return r.held != nil && r.due }

// release returns the packet that is due.
func (r *resets) release() []byte {
	if !r.isDue() {
		return nil
	}
	packet := r.held
	r.held = nil
	return packet
}
