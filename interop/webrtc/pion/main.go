// pion/webrtc as the peer of the tests. ../README.md has the requests, one line of JSON each on standard input; each has one line of JSON as
// its answer.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/webrtc/v4"
)

type properties struct {
	Label             string  `json:"label"`
	Protocol          *string `json:"protocol"`
	Ordered           *bool   `json:"ordered"`
	MaxRetransmits    *uint16 `json:"maxRetransmits"`
	MaxPacketLifeTime *uint16 `json:"maxPacketLifeTime"`
}

type request struct {
	Do       string       `json:"do"`
	SDP      string       `json:"sdp"`
	Channels []properties `json:"channels"`
	Label    string       `json:"label"`
	Sizes    []int        `json:"sizes"`
	Kind     string       `json:"kind"`
	Text     string       `json:"text"`
	Size     int          `json:"size"`
	Seconds  float64      `json:"seconds"`
	Low      uint64       `json:"low"`
	High     uint64       `json:"high"`
	Pause    float64      `json:"pause"`
	Media    []string     `json:"media"`
}

type answer map[string]any

// A channel, and what happened to it.
type known struct {
	channel *webrtc.DataChannel
	inbox   chan webrtc.DataChannelMessage
	bytes   atomic.Int64
	opened  chan struct{}
	closed  chan struct{}
}

type peer struct {
	connection *webrtc.PeerConnection
	mutex      sync.Mutex
	channels   map[string]*known
}

const patience = 60 * time.Second

func content(size int, kind string) []byte {
	result := make([]byte, size)
	for place := range result {
		if kind == "text" {
			result[place] = "abcdefghijklmnopqrstuvwxyz"[place%26]
		} else {
			result[place] = byte(place % 251)
		}
	}
	return result
}

func (p *peer) adopt(channel *webrtc.DataChannel, echoes bool) *known {
	one := &known{channel: channel, inbox: make(chan webrtc.DataChannelMessage, 64), opened: make(chan struct{}), closed: make(chan struct{})}
	p.mutex.Lock()
	p.channels[channel.Label()] = one
	p.mutex.Unlock()
	var opened, closed sync.Once
	channel.OnOpen(func() { opened.Do(func() { close(one.opened) }) })
	channel.OnClose(func() { closed.Do(func() { close(one.closed) }) })
	channel.OnMessage(func(message webrtc.DataChannelMessage) {
		switch {
		case strings.HasPrefix(channel.Label(), "sink"):
			one.bytes.Add(int64(len(message.Data)))
		case !echoes:
			one.inbox <- message
		case message.IsString:
			_ = channel.SendText(string(message.Data))
		default:
			_ = channel.Send(message.Data)
		}
	})
	return one
}

func (p *peer) find(label string) (*known, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if one := p.channels[label]; one != nil {
		return one, nil
	}
	return nil, fmt.Errorf("there is no channel %s", label)
}

func wait(event chan struct{}, name string) error {
	select {
	case <-event:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("not %s in time", name)
	}
}

func (p *peer) create(wanted []properties) ([]*known, error) {
	var created []*known
	for _, one := range wanted {
		channel, err := p.connection.CreateDataChannel(one.Label, &webrtc.DataChannelInit{
			Ordered: one.Ordered, MaxRetransmits: one.MaxRetransmits, MaxPacketLifeTime: one.MaxPacketLifeTime, Protocol: one.Protocol,
		})
		if err != nil {
			return nil, err
		}
		created = append(created, p.adopt(channel, false))
	}
	return created, nil
}

// The local description with all candidates.
func (p *peer) describe(description webrtc.SessionDescription) (answer, error) {
	gathered := webrtc.GatheringCompletePromise(p.connection)
	if err := p.connection.SetLocalDescription(description); err != nil {
		return nil, err
	}
	<-gathered
	return answer{"sdp": p.connection.LocalDescription().SDP}, nil
}

func (p *peer) echoes(r request) error {
	one, err := p.find(r.Label)
	if err != nil {
		return err
	}
	if err := wait(one.opened, "open"); err != nil {
		return err
	}
	for _, size := range r.Sizes {
		sent := content(size, r.Kind)
		if r.Kind == "text" {
			err = one.channel.SendText(string(sent))
		} else {
			err = one.channel.Send(sent)
		}
		if err != nil {
			return err
		}
		select {
		case back := <-one.inbox:
			if back.IsString != (r.Kind == "text") || !bytes.Equal(back.Data, sent) {
				return fmt.Errorf("%s of %d bytes came back as %d bytes", r.Kind, size, len(back.Data))
			}
		case <-time.After(patience):
			return fmt.Errorf("%s of %d bytes did not come back", r.Kind, size)
		}
	}
	return nil
}

func flood(channel *webrtc.DataChannel, r request) (answer, error) {
	isLow := make(chan struct{}, 1)
	channel.SetBufferedAmountLowThreshold(r.Low)
	channel.OnBufferedAmountLow(func() {
		select {
		case isLow <- struct{}{}:
		default:
		}
	})
	message, sent := make([]byte, r.Size), 0
	end := time.Now().Add(time.Duration(r.Seconds * float64(time.Second)))
	for time.Now().Before(end) {
		if channel.BufferedAmount() < r.High {
			if err := channel.Send(message); err != nil {
				return nil, err
			}
			sent += r.Size
			time.Sleep(time.Duration(r.Pause * float64(time.Millisecond)))
			continue
		}
		select {
		case <-isLow:
		case <-time.After(time.Second):
		}
	}
	return answer{"bytes": sent}, nil
}

func (p *peer) do(r request) (answer, error) {
	switch r.Do {
	case "offer":
		for _, kind := range r.Media {
			if _, err := p.connection.AddTransceiverFromKind(webrtc.NewRTPCodecType(kind)); err != nil {
				return nil, err
			}
		}
		if _, err := p.create(r.Channels); err != nil {
			return nil, err
		}
		offer, err := p.connection.CreateOffer(nil)
		if err != nil {
			return nil, err
		}
		return p.describe(offer)
	case "answer":
		if err := p.connection.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: r.SDP}); err != nil {
			return nil, err
		}
		description, err := p.connection.CreateAnswer(nil)
		if err != nil {
			return nil, err
		}
		return p.describe(description)
	case "accept":
		return answer{}, p.connection.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: r.SDP})
	case "open":
		created, err := p.create(r.Channels)
		for _, one := range created {
			if err == nil {
				err = wait(one.opened, "open")
			}
		}
		return answer{}, err
	case "echoes":
		return answer{}, p.echoes(r)
	case "say", "close", "closed", "flood", "received":
		one, err := p.find(r.Label)
		if err != nil {
			return nil, err
		}
		if r.Do == "say" {
			return answer{}, one.channel.SendText(r.Text)
		}
		if r.Do == "flood" {
			return flood(one.channel, r)
		}
		if r.Do == "received" {
			return answer{"bytes": one.bytes.Load()}, nil
		}
		if r.Do == "close" {
			if err := one.channel.Close(); err != nil {
				return nil, err
			}
		}
		return answer{}, wait(one.closed, "closed")
	case "vanish":
		os.Exit(0)
	}
	return nil, fmt.Errorf("unknown request %s", r.Do)
}

func main() {
	settings := webrtc.SettingEngine{}
	// Connections to this machine.
	settings.SetIncludeLoopbackCandidate(true)
	connection, err := webrtc.NewAPI(webrtc.WithSettingEngine(settings)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p := &peer{connection: connection, channels: map[string]*known{}}
	connection.OnDataChannel(func(channel *webrtc.DataChannel) { p.adopt(channel, true) })
	output := json.NewEncoder(os.Stdout)
	_ = output.Encode(answer{"ready": "pion/webrtc 4"})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		result, err := p.do(r)
		if err != nil {
			result = answer{"error": err.Error()}
		}
		_ = output.Encode(result)
	}
}
