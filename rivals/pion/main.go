// SCTP by pion, over UDP: the helper that ../src/pion.rs starts. The sender reads messages from standard input, and the receiver writes
// messages to standard output, each with the header of ../src/traffic.rs.
//
//	rival-pion send|receive ADDRESS LIFETIME-IN-MS file|messages
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const (
	header   = 32
	longest  = 64 << 10
	part     = 16 << 10
	fileKind = 1
	// So many bytes of the file wait at most: WriteSCTP never blocks.
	fileWaits      = 256 << 10
	messages, file = 0, 1
)

// link is a UDP socket with one peer: the sender of the last datagram, or the address that the socket is connected to.
type link struct {
	*net.UDPConn
	peer atomic.Pointer[net.UDPAddr]
}

func (l *link) Read(bytes []byte) (int, error) {
	n, from, err := l.ReadFromUDP(bytes)
	if err == nil {
		l.peer.Store(from)
	}
	return n, err
}

func (l *link) Write(bytes []byte) (int, error) {
	peer := l.peer.Load()
	if peer == nil {
		return len(bytes), nil
	}
	return l.WriteToUDP(bytes, peer)
}

func (l *link) RemoteAddr() net.Addr { return l.peer.Load() }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rival-pion:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	// The parent reads this process's times when it is asked to end, and then closes standard input.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if len(args) != 4 {
		return fmt.Errorf("usage: rival-pion send|receive ADDRESS LIFETIME-IN-MS file|messages")
	}
	address, err := net.ResolveUDPAddr("udp4", args[1])
	if err != nil {
		return err
	}
	lifetime, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	if args[0] == "receive" {
		return receive(address)
	}
	return send(address, uint32(lifetime), args[3] == "file")
}

func options(socket *net.UDPConn, peer *net.UDPAddr) sctp.Config {
	conn := &link{UDPConn: socket}
	conn.peer.Store(peer)
	return sctp.Config{NetConn: conn, LoggerFactory: logging.NewDefaultLoggerFactory()}
}

func receive(address *net.UDPAddr) error {
	socket, err := net.ListenUDP("udp4", address)
	if err != nil {
		return err
	}
	association, err := sctp.Server(options(socket, nil))
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var writing sync.Mutex
	for {
		stream, err := association.AcceptStream()
		if err != nil {
			return err
		}
		go func() {
			bytes := make([]byte, longest)
			for {
				n, _, err := stream.ReadSCTP(bytes)
				if err != nil {
					return
				}
				writing.Lock()
				os.Stdout.Write(bytes[:n])
				writing.Unlock()
			}
		}()
	}
}

func send(address *net.UDPAddr, lifetime uint32, hasFile bool) error {
	socket, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return err
	}
	association, err := sctp.Client(options(socket, address))
	if err != nil {
		return err
	}
	stream, err := association.OpenStream(messages, sctp.PayloadTypeWebRTCBinary)
	if err != nil {
		return err
	}
	if lifetime > 0 {
		stream.SetReliabilityParams(true, sctp.ReliabilityTypeTimed, lifetime)
	}
	if hasFile {
		files, err := association.OpenStream(file, sctp.PayloadTypeWebRTCBinary)
		if err != nil {
			return err
		}
		go sendFile(files)
	}
	// Tells the parent that the association is up.
	fmt.Println()
	input := bufio.NewReaderSize(os.Stdin, longest)
	for {
		bytes := make([]byte, longest)
		if _, err := io.ReadFull(input, bytes[:header]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		length := binary.LittleEndian.Uint32(bytes)
		if length < header || length > longest {
			return fmt.Errorf("a message of %d bytes", length)
		}
		if _, err := io.ReadFull(input, bytes[header:length]); err != nil {
			return err
		}
		if _, err := stream.WriteSCTP(bytes[:length], sctp.PayloadTypeWebRTCBinary); err != nil {
			return err
		}
	}
}

// sendFile sends a file without end.
func sendFile(stream *sctp.Stream) {
	bytes := make([]byte, part)
	binary.LittleEndian.PutUint32(bytes, part)
	bytes[4] = fileKind
	for {
		if stream.BufferedAmount() > fileWaits {
			time.Sleep(time.Millisecond)
			continue
		}
		if _, err := stream.WriteSCTP(bytes, sctp.PayloadTypeWebRTCBinary); err != nil {
			return
		}
	}
}
