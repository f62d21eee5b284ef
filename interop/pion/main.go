// The pion peer of the interop tests: one association of github.com/pion/sctp, its packets directly in UDP datagrams
// on loopback, both SCTP ports 5000. The command line, the message generator and the closing JSON line are those of
// ../README.md; ../usrsctp/peer.c does the same with another library.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const (
	ppidBase = 0x41000000
	// More than this queued and in flight, and pion runs into the peer's closed window and waits for its T3-rtx.
	sendBuffer    = 256 << 10
	receiveWindow = 1 << 20
)

type options struct {
	listen, send, log, first                            bool
	udpPort, localUDPPort, streams, unorderedEvery, mtu int
	partialMS                                           int
	messages, expect, loss, timeout, maxSize            int
	resets                                              int
	resetsBy                                            string
	openFirst                                           bool
	seed                                                uint64
}

// --- the end -------------------------------------------------------------------------------------------------------

type peer struct {
	opt                   options
	started               time.Time
	verdict               sync.Mutex
	received, sent, bytes atomic.Int64
	conn                  *link
	association           *sctp.Association

	// writing guards the channels: one message is written at a time, as the settings of a stream belong to a message.
	writing               sync.Mutex
	channels              []*channel
	ended, closed, reused atomic.Int64

	lock        sync.Mutex
	seen        []bool
	lastOrdered map[uint16]int
	allReceived chan struct{}
	missing     int // reliable messages that are still to come
}

// finish writes the one JSON line and leaves. The lock is never released: the first verdict stands.
func (p *peer) finish(failure error) {
	p.verdict.Lock()
	line := struct {
		OK       bool    `json:"ok"`
		Received int64   `json:"received"`
		Sent     int64   `json:"sent"`
		Bytes    int64   `json:"bytes"`
		Error    *string `json:"error"`
		Peer     string  `json:"peer"`
		Shutdown bool    `json:"shutdown"`
		Ended    int64   `json:"ended"`
		Reset    int64   `json:"reset"`
		Reused   int64   `json:"reused"`
		Seconds  float64 `json:"seconds"`
	}{
		OK: failure == nil, Received: p.received.Load(), Sent: p.sent.Load(), Bytes: p.bytes.Load(), Peer: "pion",
		Ended: p.ended.Load(), Reset: p.closed.Load(), Reused: p.reused.Load(), Seconds: time.Since(p.started).Seconds(),
	}
	if p.conn != nil {
		line.Shutdown = p.conn.completed()
	}
	status := 0
	if failure != nil {
		text := failure.Error()
		line.Error, status = &text, 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(line)
	os.Exit(status)
}

// --- the messages --------------------------------------------------------------------------------------------------

type message struct {
	stream    uint16
	size      int
	unordered bool
	state     uint64 // where the payload's words go on from
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func next(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	return mix(*state)
}

var classes = []struct {
	below     uint64
	low, high int
}{{700, 1, 256}, {900, 257, 4096}, {987, 4097, 16384}, {996, 16385, 65536}, {1000, 65537, 262144}}

// describe tells message index of the direction that the listening or the connecting side sends.
func (o *options) describe(fromListener bool, index int) message {
	direction := uint64(0)
	if fromListener {
		direction = 1
	}
	m := message{state: mix(mix(2*o.seed+direction) + uint64(index))}
	class, size, stream := next(&m.state)%1000, next(&m.state), next(&m.state)
	c := 0
	for class >= classes[c].below {
		c++
	}
	m.size = classes[c].low + int(size%uint64(classes[c].high-classes[c].low+1))
	if index == 0 {
		m.size = 1
	}
	if index == 1 || m.size > o.maxSize {
		m.size = o.maxSize
	}
	m.stream = uint16(stream % uint64(o.streams))
	m.unordered = o.unorderedEvery > 0 && index%o.unorderedEvery == o.unorderedEvery-1
	return m
}

// reliability tells how a message on this stream may be given up.
func (o *options) reliability(stream uint16) (byte, uint32) {
	switch {
	case o.partialMS > 0 && stream%4 == 2:
		return sctp.ReliabilityTypeRexmit, 0
	case o.partialMS > 0 && stream%4 == 3:
		return sctp.ReliabilityTypeTimed, uint32(o.partialMS)
	}
	return sctp.ReliabilityTypeReliable, 0
}

func (o *options) isReliable(stream uint16) bool {
	kind, _ := o.reliability(stream)
	return kind == sctp.ReliabilityTypeReliable
}

func (m message) payload() []byte {
	out := make([]byte, (m.size+7)/8*8)
	for at := 0; at < m.size; at += 8 {
		binary.LittleEndian.PutUint64(out[at:], next(&m.state))
	}
	return out[:m.size]
}

// --- the link ------------------------------------------------------------------------------------------------------

// link is the net.Conn under the association: UDP datagrams to and from one remote, which a listener learns from the
// first one. It can lose some, and it notes what pion does not tell: which chunk ended the association, and which of its
// requests to reset streams were answered.
type link struct {
	*net.UDPConn
	resets                          resets
	lock                            sync.Mutex
	remote                          *net.UDPAddr
	first                           []byte
	random                          *rand.Rand
	loss                            int
	completeIn, completeOut, ending bool
	aborted                         string
}

func (l *link) note(packet []byte, in bool) (drop bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.loss > 0 && l.random.Intn(1000) < l.loss {
		return true
	}
	if len(packet) < 13 {
		return false
	}
	switch packet[12] { // these chunks are the first of their packets
	case 6:
		l.aborted = "sent ABORT"
		if in {
			l.aborted = "received ABORT"
		}
	case 7, 8:
		l.ending = l.ending || in
	case 14:
		l.completeIn, l.completeOut = l.completeIn || in, l.completeOut || !in
	}
	l.resets.note(packet, in)
	return false
}

func (l *link) completed() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.completeIn || l.completeOut
}

// Read returns the next datagram of the remote.
func (l *link) Read(b []byte) (int, error) {
	l.lock.Lock()
	l.resets.processed()
	l.lock.Unlock()
	for {
		if l.first != nil {
			n := copy(b, l.first)
			l.first = nil
			return n, nil
		}
		l.lock.Lock()
		packet := l.resets.release()
		l.lock.Unlock()
		if packet != nil {
			return copy(b, packet), nil
		}
		n, from, err := l.UDPConn.ReadFromUDP(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = l.UDPConn.SetReadDeadline(time.Time{})
			continue // a packet that was held back is due
		}
		if err != nil {
			return 0, err
		}
		if from.Port != l.remote.Port || !from.IP.Equal(l.remote.IP) || l.note(b[:n], true) {
			continue
		}
		l.lock.Lock()
		held := l.resets.hold(b[:n])
		l.lock.Unlock()
		if !held {
			return n, nil
		}
	}
}

// Write sends a datagram to the remote.
func (l *link) Write(b []byte) (int, error) {
	if l.note(b, false) {
		return len(b), nil
	}
	n, err := l.UDPConn.WriteToUDP(b, l.remote)
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.resets.isDue() {
		_ = l.UDPConn.SetReadDeadline(time.Now())
	}
	return n, err
}

// RemoteAddr is the remote's UDP address.
func (l *link) RemoteAddr() net.Addr { return l.remote }

func (o *options) open() (*link, error) {
	own := o.localUDPPort
	if o.listen {
		own = o.udpPort
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: own})
	if err != nil {
		return nil, err
	}
	_ = socket.SetReadBuffer(4 << 20)
	l := &link{UDPConn: socket, loss: o.loss, random: rand.New(rand.NewSource(int64(o.seed)))}
	if !o.listen {
		l.remote = &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: o.udpPort}
		return l, nil
	}
	fmt.Fprintf(os.Stderr, "ready udp-port=%d\n", socket.LocalAddr().(*net.UDPAddr).Port)
	buffer := make([]byte, 1<<16)
	n, from, err := socket.ReadFromUDP(buffer)
	l.remote, l.first = from, buffer[:n]
	return l, err
}

// --- sending -------------------------------------------------------------------------------------------------------

func (p *peer) sendAll() error {
	for i := 0; p.opt.send && i < p.opt.messages; i++ {
		if p.opt.resets > 0 {
			p.keepToRound(i)
		}
		if err := p.send(i); err != nil {
			return err
		}
	}
	return nil
}

// send sends message i, or puts it aside while its stream is being reset.
func (p *peer) send(i int) error {
	m := p.opt.describe(p.opt.listen, i)
	p.writing.Lock()
	for held := p.association.BufferedAmount(); held > 0 && held+m.size > sendBuffer; held = p.association.BufferedAmount() {
		p.writing.Unlock()
		time.Sleep(100 * time.Microsecond)
		p.writing.Lock()
	}
	defer p.writing.Unlock()
	c := p.channels[m.stream]
	if c.stream == nil {
		c.waiting = append(c.waiting, i)
		return nil
	}
	return p.write(c.stream, i)
}

// write hands a message to pion. The caller holds the lock of writing.
func (p *peer) write(stream *sctp.Stream, i int) error {
	m := p.opt.describe(p.opt.listen, i)
	kind, value := p.opt.reliability(m.stream)
	stream.SetReliabilityParams(m.unordered, kind, value)
	n, err := stream.WriteSCTP(m.payload(), sctp.PayloadProtocolIdentifier(ppidBase+i))
	if err != nil || n != m.size {
		return fmt.Errorf("sending message %d (%d bytes, stream %d) wrote %d: %w", i, m.size, m.stream, n, err)
	}
	p.sent.Add(1)
	return nil
}

// --- receiving -----------------------------------------------------------------------------------------------------

func (p *peer) check(stream uint16, ppid uint32, data []byte) error {
	index := int(int64(ppid) - ppidBase)
	if index < 0 || index >= p.opt.expect {
		return fmt.Errorf("payload protocol identifier 0x%08x is of no message", ppid)
	}
	m := p.opt.describe(!p.opt.listen, index)
	want := m.payload()
	p.lock.Lock()
	defer p.lock.Unlock()
	switch {
	case p.seen[index]:
		return fmt.Errorf("message %d arrived twice", index)
	case stream != m.stream:
		return fmt.Errorf("message %d arrived on stream %d, not %d", index, stream, m.stream)
	case len(data) != m.size:
		return fmt.Errorf("message %d has %d bytes, not %d", index, len(data), m.size)
	}
	for at := range want {
		if want[at] != data[at] {
			return fmt.Errorf("message %d differs at byte %d of %d", index, at, m.size)
		}
	}
	p.seen[index] = true
	if !m.unordered {
		if last, any := p.lastOrdered[stream]; any && index <= last {
			return fmt.Errorf("message %d arrived after %d on stream %d", index, last, stream)
		}
		p.lastOrdered[stream] = index
	}
	p.bytes.Add(int64(m.size))
	p.received.Add(1)
	if p.opt.isReliable(stream) {
		if p.missing--; p.missing == 0 {
			close(p.allReceived)
		}
	}
	return nil
}

func (p *peer) receiveStream(s *sctp.Stream) {
	id := s.StreamIdentifier()
	if int(id) >= p.opt.streams {
		p.finish(fmt.Errorf("data on stream %d of %d", id, p.opt.streams))
	}
	buffer := make([]byte, 1<<20)
	for {
		n, ppid, err := s.ReadSCTP(buffer)
		if errors.Is(err, io.ErrShortBuffer) {
			p.finish(fmt.Errorf("a message on stream %d is longer than %d bytes", id, len(buffer)))
		}
		if errors.Is(err, io.EOF) {
			p.onEnd(id)
			return
		}
		if err != nil {
			return // the association is over; how is told by the link
		}
		if err := p.check(id, uint32(ppid), buffer[:n]); err != nil {
			p.finish(err)
		}
	}
}

// watchdog ends the process when its time is over.
func (p *peer) watchdog() {
	last := [2]int64{}
	for time.Since(p.started) < time.Duration(p.opt.timeout)*time.Second {
		time.Sleep(100 * time.Millisecond)
		if now := [2]int64{p.received.Load(), p.sent.Load()}; p.opt.log && now != last {
			fmt.Fprintf(os.Stderr, "%.1f s: received %d, sent %d\n", time.Since(p.started).Seconds(), now[0], now[1])
			last = now
		}
	}
	p.finish(fmt.Errorf("timeout after %d s: received %d of %d, sent %d of %d", p.opt.timeout, p.received.Load(), p.opt.expect, p.sent.Load(), p.opt.messages))
}

func (p *peer) run() error {
	conn, err := p.opt.open()
	if err != nil {
		return err
	}
	p.conn = conn
	conn.resets = resets{sent: map[uint32][]uint16{}, answered: p.onAnswered, crossing: p.opt.resetsBy == "both", reset: p.reset}
	factory := logging.NewDefaultLoggerFactory() // writes to standard error
	factory.DefaultLogLevel = logging.LogLevelDisabled
	if p.opt.log {
		factory.DefaultLogLevel = logging.LogLevelWarn
	}
	config := sctp.Config{
		NetConn: conn, LoggerFactory: factory, MTU: uint32(p.opt.mtu),
		MaxReceiveBufferSize: receiveWindow, MaxMessageSize: 1 << 20,
	}
	if p.opt.listen {
		p.association, err = sctp.Server(config)
	} else {
		p.association, err = sctp.Client(config)
	}
	if err != nil {
		return fmt.Errorf("set-up: %w", err)
	}
	over := make(chan struct{})
	p.writing.Lock()
	err = p.openAll()
	p.writing.Unlock()
	if err != nil {
		return err
	}
	go p.acceptAll(over)
	if err := p.sendAll(); err != nil {
		return err
	}
	select {
	case <-p.allReceived:
	case <-over:
		<-time.After(50 * time.Millisecond) // readers hand over what had come before the end
	}
	p.lock.Lock()
	missing := p.missing
	p.lock.Unlock()
	if missing > 0 {
		return fmt.Errorf("the association ended after %d of %d messages, %d reliable ones missing (%s)", p.received.Load(), p.opt.expect, missing, conn.ended())
	}
	return p.end(over)
}

// openAll opens all streams and starts a reader for each. A stream that OpenStream made first is never offered by AcceptStream, so
// all of them are opened here, before anything is read from them.
func (p *peer) openAll() error {
	for id := range p.opt.streams {
		stream, err := p.association.OpenStream(uint16(id), sctp.PayloadTypeUnknown)
		if err != nil {
			return fmt.Errorf("opening stream %d: %w", id, err)
		}
		c := &channel{stream: stream}
		p.channels = append(p.channels, c)
		p.read(c, stream)
	}
	return nil
}

// acceptAll takes the streams that the remote uses first: numbers that were reset, or a stream too many.
func (p *peer) acceptAll(over chan struct{}) {
	for {
		stream, err := p.association.AcceptStream()
		if err != nil {
			close(over)
			return
		}
		id := int(stream.StreamIdentifier())
		if id >= p.opt.streams {
			p.finish(fmt.Errorf("data on stream %d of %d", id, p.opt.streams))
		}
		p.onAccepted(id, stream)
	}
}

// end shuts down, or waits for the remote's shutdown, and makes sure that it was one.
func (p *peer) end(over chan struct{}) error {
	if p.opt.first {
		// Shutdown sends SHUTDOWN once everything is acknowledged, and returns when the association is gone.
		if err := p.association.Shutdown(context.Background()); err != nil {
			return fmt.Errorf("shutdown: %w", err)
		}
	}
	<-over
	p.conn.lock.Lock()
	defer p.conn.lock.Unlock()
	switch {
	case p.conn.aborted != "":
		return errors.New(p.conn.aborted)
	case !p.conn.completeIn && !p.conn.completeOut:
		return errors.New("the association ended without SHUTDOWN COMPLETE")
	case !p.conn.ending:
		return errors.New("the association ended without a SHUTDOWN or SHUTDOWN ACK of the peer")
	}
	return nil
}

func (l *link) ended() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	switch {
	case l.aborted != "":
		return l.aborted
	case l.completeIn || l.completeOut:
		return "by a shutdown"
	}
	return "without ABORT or SHUTDOWN COMPLETE"
}

func main() {
	p := &peer{started: time.Now(), lastOrdered: map[uint16]int{}, allReceived: make(chan struct{})}
	p.opt.read(os.Args)
	p.seen = make([]bool, p.opt.expect)
	for i := range p.opt.expect {
		if p.opt.isReliable(p.opt.describe(!p.opt.listen, i).stream) {
			p.missing++
		}
	}
	if p.missing == 0 {
		close(p.allReceived)
	}
	go p.watchdog()
	p.finish(p.run())
}

func (o *options) read(args []string) {
	usage := func(format string, a ...any) {
		fmt.Fprintf(os.Stderr, "pion-peer: "+format+"\n", a...)
		os.Exit(2)
	}
	if len(args) < 2 || args[1] != "listen" && args[1] != "connect" {
		usage("usage: pion-peer listen|connect --udp-port P [options], see interop/README.md")
	}
	o.listen = args[1] == "listen"
	f := flag.NewFlagSet("pion-peer", flag.ExitOnError)
	f.IntVar(&o.udpPort, "udp-port", 0, "the own UDP port (listen; 0: any), or the remote's (connect)")
	f.IntVar(&o.localUDPPort, "local-udp-port", 0, "the own UDP port (connect; 0: any)")
	f.IntVar(&o.messages, "messages", 100, "messages to send")
	f.IntVar(&o.expect, "expect", -1, "messages to receive (default: as many as are sent)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of both directions")
	f.IntVar(&o.streams, "streams", 8, "streams in each direction")
	f.IntVar(&o.maxSize, "max-size", 262144, "bytes of the largest message")
	f.IntVar(&o.unorderedEvery, "unordered-every", 0, "every U-th message is unordered; 0: none")
	f.IntVar(&o.partialMS, "partial", 0, "milliseconds that messages of streams 3, 7, … live; 0: all are reliable")
	f.IntVar(&o.timeout, "timeout", 120, "seconds until failure")
	f.IntVar(&o.loss, "loss", 0, "datagrams lost of a thousand, in each direction")
	f.IntVar(&o.mtu, "mtu", 1400, "bytes of the largest SCTP packet")
	f.IntVar(&o.resets, "resets", 0, "how many times a stream is reset in both directions, and used again")
	f.StringVar(&o.resetsBy, "resets-by", "peer", "who resets a stream first: peer, self, or both at the same time")
	f.BoolVar(&o.openFirst, "open-first", false, "use a stream again without waiting for the peer to use it")
	f.Int("linger", 0, "accepted and without effect: pion forgets an association at its end")
	f.BoolVar(&o.log, "log", false, "progress and warnings to standard error")
	f.BoolVar(&o.send, "send", true, "send messages")
	noSend := f.Bool("no-send", false, "send none")
	shutdown := f.String("shutdown", "", "first: shut down when all is done; second: wait for the peer to")
	_ = f.Parse(args[2:])
	o.send = o.send && !*noSend
	if o.expect < 0 {
		o.expect = o.messages
	}
	o.first = *shutdown == "first" || *shutdown == "" && !o.listen
	switch {
	case f.NArg() > 0 || *shutdown != "" && *shutdown != "first" && *shutdown != "second":
		usage("unknown argument or value: %q %q", f.Args(), *shutdown)
	case o.resetsBy != "peer" && o.resetsBy != "self" && o.resetsBy != "both":
		usage("--resets-by takes peer, self or both, not %q", o.resetsBy)
	case o.resets < 0 || o.resets > 0 && o.messages < 4*(o.resets+1):
		usage("--resets needs four messages for each, and four more")
	case !o.listen && o.udpPort == 0:
		usage("connect needs --udp-port, the remote's")
	case o.streams < 1 || o.streams > 1024 || o.maxSize < 1 || o.maxSize > 262144 || o.messages < 0 || o.messages > 0xffffff || o.loss < 0 || o.loss > 1000:
		usage("a value is out of its range")
	}
}
