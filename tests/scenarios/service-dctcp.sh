#!/bin/bash
# The network's stage has dctcp under the unit as it is installed, and says what is missing where
# the machine does not allow it.
# cpus: 1
. /run/scenarios/lib.sh
boot
configure </dev/null
allowed=net.ipv4.tcp_allowed_congestion_control
# congestion: prints the congestion control of the target's ends of a host's connections.
congestion() { ss -tniH state established "( sport = :4420 )" | sed -n 's/^[[:space:]]*\([a-z]*\) .*/\1/p' | sort -u; }

sysctl -qw net.ipv4.tcp_ecn=1 # as on a host (docs/use/qos.md)

step "what is installed allows dctcp, at boot and without CAP_NET_ADMIN"
contains "$allowed" "$(sysctl -n $allowed)" "(^| )dctcp( |$)"
same "the machine's default" "$(sysctl -n net.ipv4.tcp_congestion_control)" cubic
expect "start" systemctl start sluiced
lacks "capabilities" "$(property CapabilityBoundingSet) $(property AmbientCapabilities)" cap_net_admin
lacks "sluice qos network" "$(sluice qos network)" "dctcp (may not|is not)"
connect $DISK
same "congestion control" "$(congestion)" dctcp
disconnect $DISK

step "where it is not allowed, sluice qos network shows the remedy"
expect "stop" systemctl stop sluiced
sysctl -qw $allowed="reno cubic"
expect "start" systemctl start sluiced
contains "sluice qos network" "$(sluice qos network)" "dctcp may not be used .*sysctl -w $allowed=\"reno cubic dctcp\""
connect $DISK
same "congestion control" "$(congestion)" cubic
disconnect $DISK
pass
