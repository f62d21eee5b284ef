"""The namespace of a client whose networks are behind address translators, on the right host of a testbed."""
import subprocess


def shell(command):
    subprocess.run(command, shell=True, check=True)


class Behind:
    """The client's namespace. Each of its networks has a translator in front of one of the testbed's links, by which it reaches `server`."""

    def __init__(self, server, links=(1, 2)):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.inside = ["nsenter", "--target", str(self.holder.pid), "--net"]
        shell("echo 1 > /proc/sys/net/ipv4/ip_forward; nft add table inet nat; nft 'add chain inet nat out { type nat hook postrouting priority 100; }'")
        self.run("ip link set lo up")
        for link in sorted(set(links)):
            shell(f"nft add rule inet nat out oifname path{link} masquerade")
        for place, link in enumerate(links, 1):
            shell(f"ip link add lan{place} type veth peer name n{place}; ip link set n{place} netns {self.holder.pid}; ip link set lan{place} up; "
                  f"ip address add 10.6{place}.0.1/24 dev lan{place}; "
                  f"ip rule add iif lan{place} table 20{place}; ip route add {server}/32 dev path{link} table 20{place}")
            self.run(f"ip address add 10.6{place}.0.2/24 dev n{place}; ip rule add from 10.6{place}.0.2 table 10{place}")
            self.plug(place)

    def run(self, command):
        subprocess.run([*self.inside, "sh", "-c", command], check=True)

    def start(self, command, **more):
        return subprocess.Popen([*self.inside, *command], text=True, **more)

    def plug(self, place):
        gateway = f"default via 10.6{place}.0.1 dev n{place}"
        self.run(f"ip link set n{place} up; ip route add {gateway} metric {place}; ip route add {gateway} table 10{place}")

    def pull(self, place):
        self.run(f"ip link set n{place} down")

    def end(self):
        self.holder.kill()
