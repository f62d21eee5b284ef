"""aiortc as the peer of the tests. README.md has the requests, one line of JSON each on standard input; each has one line of JSON as its
answer."""

import asyncio
import json
import os
import sys
import time

import aiortc
from aiortc import RTCBundlePolicy, RTCConfiguration, RTCPeerConnection, RTCSessionDescription


def content(size, kind):
    if kind == "text":
        return ("abcdefghijklmnopqrstuvwxyz" * (size // 26 + 1))[:size]
    return bytes(place % 251 for place in range(size))


class Peer:
    def __init__(self):
        self.channels = {}
        self.inboxes = {}
        self.bytes = {}
        self.changed = asyncio.Condition()
        self.start(RTCConfiguration())

    def start(self, configuration):
        self.peer = RTCPeerConnection(configuration)
        self.peer.on("datachannel", lambda channel: self.adopt(channel, True))

    def adopt(self, channel, echoes):
        self.channels[channel.label] = channel
        inbox = self.inboxes[channel.label] = []
        self.bytes[channel.label] = 0

        def on_message(data):
            if channel.label.startswith("sink"):
                self.bytes[channel.label] += len(data)
                return
            if echoes:
                channel.send(data)
            else:
                inbox.append(data)
            self.wake()

        channel.on("message", on_message)
        channel.on("open", self.wake)
        channel.on("close", self.wake)

    def wake(self, *_):
        async def notify():
            async with self.changed:
                self.changed.notify_all()

        asyncio.ensure_future(notify())

    async def until(self, condition):
        async with self.changed:
            await self.changed.wait_for(condition)

    def create(self, wanted):
        for properties in wanted:
            names = {"maxPacketLifeTime": "maxPacketLifeTime", "maxRetransmits": "maxRetransmits", "ordered": "ordered", "protocol": "protocol"}
            known = {names[key]: value for key, value in properties.items() if key in names}
            self.adopt(self.peer.createDataChannel(properties["label"], **known), False)

    async def offer(self, channels, media=(), bundlePolicy=None):
        if bundlePolicy:
            self.start(RTCConfiguration(bundlePolicy=RTCBundlePolicy(bundlePolicy)))
        for kind in media:
            self.peer.addTransceiver(kind)
        self.create(channels)
        await self.peer.setLocalDescription(await self.peer.createOffer())
        return {"sdp": self.peer.localDescription.sdp}

    async def answer(self, sdp):
        await self.peer.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
        await self.peer.setLocalDescription(await self.peer.createAnswer())
        return {"sdp": self.peer.localDescription.sdp}

    async def accept(self, sdp):
        await self.peer.setRemoteDescription(RTCSessionDescription(sdp, "answer"))
        return {}

    async def open(self, channels):
        self.create(channels)
        for properties in channels:
            await self.until(lambda: self.channels[properties["label"]].readyState == "open")
        return {}

    async def echoes(self, label, sizes, kind):
        channel, inbox = self.channels[label], self.inboxes[label]
        await self.until(lambda: channel.readyState == "open")
        for size in sizes:
            sent = content(size, kind)
            channel.send(sent)
            await self.until(lambda: inbox or channel.readyState == "closed")
            back = inbox.pop(0) if inbox else None
            if back != sent:
                raise ValueError(f"{kind} of {size} bytes came back as {type(back).__name__}")
        return {}

    async def flood(self, label, size, seconds, low, high, pause=0):
        channel, message = self.channels[label], bytes(size)
        is_low = asyncio.Event()
        channel.on("bufferedamountlow", is_low.set)
        channel.bufferedAmountLowThreshold = low
        end, sent = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            is_low.clear()
            while channel.bufferedAmount < high and time.monotonic() < end:
                channel.send(message)
                sent += size
                if pause:
                    await asyncio.sleep(pause / 1000)
            if channel.bufferedAmount >= high:
                await is_low.wait()
        return {"bytes": sent}

    async def received(self, label):
        return {"bytes": self.bytes[label]}

    async def say(self, label, text):
        self.channels[label].send(text)
        return {}

    async def close(self, label):
        self.channels[label].close()
        return await self.closed(label)

    async def closed(self, label):
        await self.until(lambda: self.channels[label].readyState == "closed")
        return {}


async def main():
    peer = Peer()
    loop = asyncio.get_running_loop()
    print(json.dumps({"ready": f"aiortc {aiortc.__version__}"}), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        action = request.pop("do")
        if action == "vanish":
            os._exit(0)
        try:
            answer = await getattr(peer, action)(**request)
        except Exception as error:  # Told to the test.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    os._exit(0)


asyncio.run(main())
