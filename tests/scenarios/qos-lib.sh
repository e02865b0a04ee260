# What the scenarios of quality of service share, beside lib.sh: a device that is slower than the
# load, fio from several hosts at once, what the daemon counted, and tables of both.
#
# The device of most of them pretends to take its time: the machine has CPU to spare then, and what
# is shown is the target's order and not the host's.
# shellcheck shell=bash
# shellcheck disable=SC2016 # the expressions in single quotes are perl's
. /run/scenarios/lib.sh

HOST3_NQN=nqn.2014-08.org.nvmexpress:uuid:5b0f4d9c-0000-4000-8000-000000000003
HOST3_ID=5b0f4d9c-0000-4000-8000-000000000003

# qos_boot: boots a machine whose target has quality of service; ends the scenario where it has none.
qos_boot() {
    boot
    if ! target_can qos; then
        step "the target has no quality of service"
        pass
    fi
    # Polling reactors would take the CPUs from the host, which has the same two.
    on_virtual_time || sed -i '/^\[target\]/a poll = "never"' "$CONFIG"
}

# configure: appends its input to the configuration: keys of the entry declared last, or further tables.
configure() { cat >>"$CONFIG"; }

# slow_disk SERVICE_TIME CHANNELS: declares a namespace whose device takes that long for each command,
# and that many commands at the same time.
slow_disk() {
    namespace null 65536 4096
    printf 'service_time = "%s"\nchannels = %s\n' "$1" "$2" | configure
}

# slow_nvme_device MILLISECONDS DEPTH: makes a device as nvme_device does, but each command takes that
# long, and the device takes that many commands at the same time.
slow_nvme_device() {
    local disk=/sys/kernel/config/nullb/slow
    mkdir $disk
    echo 1024 >$disk/size
    echo 4096 >$disk/blocksize
    echo 1 >$disk/submit_queues
    echo "$2" >$disk/hw_queue_depth
    echo 2 >$disk/irqmode # completes by a timer
    echo $(($1 * 1000000)) >$disk/completion_nsec
    echo 1 >$disk/power
    export_device /dev/slow loop
}

# attach PORT NVME_CONNECT_ARGUMENTS...: connects to T1 there; prints the controller, nvmeX. Each
# has a disk of its own only with nvme_core.multipath=N. CONNECT_FROM names another network
# namespace to connect from.
attach() {
    local port=$1 before out
    shift
    before=$(cd /sys/class/nvme && echo *)
    out=$(nsenter ${CONNECT_FROM:+--net=/run/netns/$CONNECT_FROM} \
        nvme connect -t $TRANSPORT -a $TARGET_IP -s "$port" -n $T1 --reconnect-delay=1 "$@" 2>&1) ||
        fail "nvme connect to port $port $*: $out"
    new_since "$before"
}

# new_since CONTROLLERS: prints the controller that is not among these, once it has a disk.
new_since() {
    local before=$1 after new
    after=$(cd /sys/class/nvme && echo *)
    new=$(comm -13 <(tr ' ' '\n' <<<"$before" | sort) <(tr ' ' '\n' <<<"$after" | sort) | head -1)
    eventually 10 test -b "/dev/${new}n1" || fail "no disk of controller $new"
    echo "$new"
}

# detach CONTROLLER...: disconnects controllers.
detach() {
    local c
    for c in "$@"; do expect "disconnect" nvme disconnect -d "$c"; done
}

# --- load --------------------------------------------------------------------------------------

# fio_jobs NAME SECONDS JOB...: writes the file of jobs for fio, one job for each host, all at once, after
# RAMP (1) seconds that do not count: a JOB is "NAME DISK DEPTH [OPTION=VALUE...]".
fio_jobs() {
    local name=$1 seconds=$2 job
    shift 2
    {
        printf '%s\n' '[global]' ioengine=libaio direct=1 rw=randread bs=4k time_based=1 \
            runtime="$seconds" ramp_time="${RAMP:-1}" norandommap=1 randrepeat=1 thread=1 group_reporting=0
        # fio's own choice, the CPU's counter, counts real time.
        ! on_virtual_time || echo clocksource=clock_gettime
        for job in "$@"; do
            # shellcheck disable=SC2086
            set -- $job
            printf '%s\n' "[$1]" filename="$2" iodepth="$3" "${@:4}"
        done
    } >"/tmp/fio-$name.ini"
}

# fio_hosts NAME SECONDS JOB...: runs the jobs that fio_jobs describes. An error that fio counts fails the
# scenario; fio_got has the results.
fio_hosts() {
    local name=$1
    fio_jobs "$@"
    fio --eta=never --aux-path=/tmp --output-format=json --output="/tmp/fio-$name.json" \
        "/tmp/fio-$name.ini" >"/tmp/fio-$name.err" 2>&1 ||
        fail "fio $name: $(head -c 2000 "/tmp/fio-$name.err") $(grep -v '[{}:]' "/tmp/fio-$name.json" | head -5)"
    cp "/tmp/fio-$name.json" /run/figures/
    if grep -E '"(error|total_err)" : [1-9]' "/tmp/fio-$name.json"; then fail "fio $name counts errors"; fi
}

# fio_got NAME JOB: prints operations a second, mean and 99th percentile of the latency in us, of the
# jobs of that name together (the percentile is the largest), the operations a second of the job that got the
# fewest, and the largest median.
fio_got() {
    JOB=$2 perl -MJSON::PP -0777 -e '
        my $all = JSON::PP->new->decode(substr($ARGV[0], index($ARGV[0], "{")));
        my ($rate, $mean, $p99, $p50, $n, @each) = (0, 0, 0, 0, 0);
        for my $job (grep { $_->{jobname} eq $ENV{JOB} } @{$all->{jobs}}) {
            push @each, $job->{read}{iops} + $job->{write}{iops};
            for my $way (grep { $_->{total_ios} } $job->{read}, $job->{write}) {
                $rate += $way->{iops};
                $n += $way->{total_ios};
                $mean += $way->{total_ios} * $way->{clat_ns}{mean};
                my $p = $way->{clat_ns}{percentile}{"99.000000"} || 0;
                $p99 = $p if $p > $p99;
                $p = $way->{clat_ns}{percentile}{"50.000000"} || 0;
                $p50 = $p if $p > $p50;
            }
        }
        printf "%.1f %.0f %.0f %.1f %.0f\n", $rate, $n ? $mean / $n / 1000 : 0, $p99 / 1000,
            (sort { $a <=> $b } @each)[0] // 0, $p50 / 1000;
    ' "$(cat "/tmp/fio-$1.json")"
}

# commands_with CDW13 GENERIC_DEVICE SECONDS PROCESSES: reads 4 KiB by the kernel host with that CDW13,
# which fio cannot set, from each of the processes one command at a time. Prints the number of commands.
commands_with() {
    CDW13=$1 DEVICE=$2 SECONDS_=$3 PROCESSES=$4 perl -MTime::HiRes=time -e '
        my ($end, @children) = (time + $ENV{SECONDS_});
        pipe(my $from, my $to) or die;
        for my $process (1 .. $ENV{PROCESSES}) {
            push @children, fork // die;
            next if $children[-1];
            open my $device, "+<", $ENV{DEVICE} or die "$ENV{DEVICE}: $!";
            my ($data, $n, $lba) = ("\0" x 4096, 0, $process * 65536);
            while (time < $end) {
                # struct nvme_passthru_cmd of linux/nvme_ioctl.h: Read, 1 block.
                my $command = pack("CCSLLLQQLLLLLLLLLL", 2, 0, 0, 1, 0, 0, 0,
                    unpack("J", pack("p", $data)), 0, 4096, $lba++, 0, 0, hex($ENV{CDW13}), 0, 0, 0, 0);
                my $status = ioctl($device, 0xC0484E43, $command);
                die "status " . ($status // $!) unless defined $status && $status eq "0 but true";
                $n++;
            }
            syswrite $to, pack("L", $n);
            exit;
        }
        my ($sum, $bad) = (0, 0);
        for (@children) { waitpid $_, 0; $bad ||= $? }
        for (@children) { sysread $from, my $n, 4; $sum += unpack("L", $n) unless $bad }
        $bad and die "a command failed";
        print "$sum\n";
    ' || fail "commands with CDW13 $1 failed"
}

# --- what the daemon says ----------------------------------------------------------------------

# qos EXPRESSION: prints values of `sluice qos show --json`, by a perl expression over $q, or over
# class(NAME), session(NAME), device(NSID), with done(...) operations of any of them.
qos() {
    sluice qos show --json >/tmp/qos.json 2>/tmp/qos.err || fail "sluice qos show: $(cat /tmp/qos.err)"
    perl -MJSON::PP -0777 -e '
        our $q = decode_json($ARGV[1]);
        sub one { my ($list, $key, $value) = @_; (grep { $_->{$key} eq $value } @{$q->{$list}})[0] }
        sub class { one("classes", "class", @_) }
        sub session { one("sessions", "name", @_) }
        sub device { one("devices", "nsid", @_) }
        sub done { my $n = 0; $n += $_[0]{io}{$_}{operations} for qw(read write other); $n }
        my @values = eval $ARGV[0];
        die $@ if $@;
        print join(" ", map { $_ // "null" } @values), "\n";
    ' "$1" "$(cat /tmp/qos.json)"
}

# classes_done: prints the operations of urgent, high, medium and low until now.
classes_done() { qos 'map { done(class($_)) } qw(urgent high medium low)'; }

# hosts_done DISK...: prints the operations that each disk's host has completed until now.
hosts_done() {
    local disk
    for disk in "$@"; do cut -d' ' -f1 <<<"$(sed 's/^ *//;s/  */ /g' "/sys/block/$disk/stat")"; done | paste -sd' '
}

# sum NUMBER...: prints the sum.
sum() { perl -e 'my $sum; $sum += $_ for @ARGV; print $sum' "$@"; }

# since BEFORE AFTER: prints the differences of two lists of numbers.
since() { perl -e 'my ($a, $b) = map { [split] } @ARGV; print join(" ", map { $b->[$_] - $a->[$_] } 0 .. $#$b), "\n"' "$1" "$2"; }

# commands_have_classes CONTROLLER: reads once as Urgent, twice as High and three times as Medium on one
# connection, by bits 9:8 of CDW13, and asks for these numbers in what the daemon counted.
commands_have_classes() {
    local before codes=(0x300 0x200 0x100) i n
    before=$(classes_done)
    for i in 0 1 2; do
        for ((n = 0; n <= i; n++)); do
            nvme io-passthru "/dev/ng${1#nvme}n1" --opcode=2 --namespace-id=1 --data-len=4096 \
                --cdw13=${codes[i]} --read --raw-binary >/tmp/out 2>/tmp/err ||
                fail "a read with CDW13 ${codes[i]}: $(cat /tmp/err)"
        done
    done
    # Low is for what the kernel itself reads of a new disk, too.
    same "commands of urgent, high and medium" "$(since "$before" "$(classes_done)" | cut -d' ' -f1-3)" "1 2 3"
}

# dscp PORT [NETWORK_NAMESPACE]: prints the DSCP of most packets that come from PORT in two seconds. Packets
# of RDMA (RoCE version 2) name a queue pair in place of a port: those of the connections to PORT.
dscp() {
    local pairs=''
    if over rdma; then
        pairs=$(nsenter ${2:+--net=/run/netns/$2} rdma resource show cm_id |
            sed -n "s/.* lqpn \([0-9]*\) .* dst-addr $TARGET_IP:$1\b.*/\1/p" | tr '\n' ' ')
        [ -n "$pairs" ] || fail "no queue pair to port $1: $(rdma resource show cm_id)"
    fi
    PORT=$1 PAIRS=$pairs TARGET=$TARGET_IP nsenter ${2:+--net=/run/netns/$2} perl -e 'use Socket;
        socket(my $s, 17, SOCK_RAW, 0x0008) or die "packet socket: $!"; # ETH_P_IP, network byte order
        my ($end, %seen, %pair) = time + 2;
        $pair{$_} = 1 for split " ", $ENV{PAIRS};
        # Ethernet has 14 bytes, IP 20, UDP 8; the base transport header has the pair in its fifth to eighth.
        while (time < $end && ($seen{all} // 0) < 50) {
            recv($s, my $p, 128, 0) // last;
            my ($tos, $protocol, $from) = unpack("x15 C x7 C x2 a4", $p);
            next if $from ne inet_aton($ENV{TARGET});
            if (%pair) {
                next if $protocol != 17 || unpack("x36 n", $p) != 4791;
                next if !$pair{unpack("x46 N", $p) & 0xffffff};
            } else {
                next if $protocol != 6 || unpack("x34 n", $p) != $ENV{PORT};
            }
            $seen{all}++;
            $seen{by}{$tos >> 2}++;
        }
        print +(sort { $seen{by}{$b} <=> $seen{by}{$a} } keys %{$seen{by}})[0] // "none", "\n"'
}

# --- tables ------------------------------------------------------------------------------------

# within PER_CENT WHAT HAVE WANT: prints HAVE beside WANT; fails the scenario where they differ by more than
# PER_CENT of WANT.
within() {
    perl -e 'my ($most, $what, $have, $want) = @ARGV; my $off = 100 * ($have / $want - 1);
        printf "    %s: %.4g, expected %.4g, off by %.2f %%\n", $what, $have, $want, $off; exit(abs($off) > $most)' "$@" ||
        fail "$2: $3, expected $4 within $1 %"
}

# shares TOLERANCE "NAME WEIGHT GOT"...: prints configured and seen shares, of operations or of what
# UNIT says; fails (not the scenario) where one is off by more than TOLERANCE per cent of itself.
shares() {
    local tolerance=$1
    shift
    printf '%s\n' "$@" | TOLERANCE=$tolerance perl -ane '
        push @rows, [@F];
        $weights += $F[1], $all += $F[2];
        END {
            printf "    %-28s %10s %10s %8s %8s\n", "who", $ENV{UNIT} || "operations", "configured", "seen", "error";
            for (@rows) {
                my ($name, $weight, $got) = @$_;
                my ($want, $have) = ($weight / $weights, $all ? $got / $all : 0);
                my $error = 100 * ($have - $want) / $want;
                printf "    %-28s %10.0f %9.2f %% %6.2f %% %6.2f %%\n", $name, $got, 100 * $want, 100 * $have, $error;
                $bad = 1 if abs($error) > $ENV{TOLERANCE};
            }
            exit $bad;
        }'
}

# at_least WHAT HAVE WANT, at_most WHAT HAVE WANT: compares numbers; a wrong one fails the scenario.
at_least() { perl -e 'exit !($ARGV[0] >= $ARGV[1])' "$2" "$3" || fail "$1: $2, expected at least $3"; }
at_most() { perl -e 'exit !($ARGV[0] <= $ARGV[1])' "$2" "$3" || fail "$1: $2, expected at most $3"; }
# nearly WHAT HAVE WANT PER_CENT: prints HAVE as a part of WANT; fails (not the scenario) below PER_CENT.
nearly() {
    perl -e 'my ($what, $have, $want, $least) = @ARGV; my $part = 100 * $have / $want;
        printf "    %s: %.1f %%\n", $what, $part; exit !($part >= $least)' "$@"
}
