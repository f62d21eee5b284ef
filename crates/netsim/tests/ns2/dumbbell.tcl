# Greedy TCP flows over one bottleneck in ns-2, for scripts/tcp-validation.
#
# usage: ns dumbbell.tcl newreno|sack SECONDS START...     (a flow for each start time, in seconds)
# prints: bytes acknowledged of each flow, separated by commas; packets offered to the bottleneck; packets dropped;
#         mean bytes in its queue, without the packet in transmission; segments retransmitted; timeouts
set agents(newreno) {Agent/TCP/Newreno Agent/TCPSink/DelAck}
set agents(sack) {Agent/TCP/Sack1 Agent/TCPSink/Sack1/DelAck}
lassign $agents([lindex $argv 0]) sender_class sink_class
set end [lindex $argv 1]
set starts [lrange $argv 2 end]
set mss 1460

Agent/TCP set packetSize_ $mss
Agent/TCP set window_ 700
Agent/TCP set minrto_ 0.2
Agent/TCPSink/DelAck set interval_ 100ms

set ns [new Simulator]
set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right 10Mb 40ms DropTail
# 50 slots of a mean packet: 73,000 bytes.
$ns queue-limit $left $right 50
set queue [[$ns link $left $right] queue]
$queue set queue_in_bytes_ true
$queue set mean_pktsize_ $mss
$ns queue-limit $right $left 10000
set monitor [$ns monitor-queue $left $right ""]
set held [$monitor get-bytes-integrator]

set senders {}
foreach start $starts {
    set a [$ns node]
    set b [$ns node]
    $ns duplex-link $a $left 100Mb 0.01ms DropTail
    $ns duplex-link $right $b 100Mb 0.01ms DropTail
    foreach {from to} [list $a $left $left $a $right $b $b $right] { $ns queue-limit $from $to 10000 }
    set sender [new $sender_class]
    set sink [new $sink_class]
    $ns attach-agent $a $sender
    $ns attach-agent $b $sink
    $ns connect $sender $sink
    set application [new Application/FTP]
    $application attach-agent $sender
    $ns at $start "$application start"
    lappend senders $sender
}
$ns at $end {
    set acknowledged {}
    set retransmitted 0
    set timeouts 0
    foreach sender $senders {
        lappend acknowledged [expr ([$sender set ack_] + 1) * $mss]
        incr retransmitted [$sender set nrexmitpack_]
        incr timeouts [$sender set nrexmit_]
    }
    # What is still in the queue counts up to now.
    $held newpoint $end [$held set lasty_]
    puts "[join $acknowledged ,] [$monitor set parrivals_] [$monitor set pdrops_] [expr [$held set sum_] / $end] $retransmitted $timeouts"
    exit 0
}
$ns run
