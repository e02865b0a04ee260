// The dumbbell of `tools/sim/examples/network_speed.rs` in ns-3: eight hosts at each side, each link 100 Gbit/s and 1 us,
// eight flows of DCTCP from left to right that always have something to send. Switches mark from 140 packets on.
//
//     dumbbell MILLISECONDS
//
// simulates that long, and prints hops and events per second of a core, the data that flows have moved, and
// how much of the time was simulated. A hop is a packet, or an acknowledgement, that one link has carried. Times are
// those in which the process had a core: the first number of its schedstat (proc(5)).

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-routing-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

const uint32_t HOSTS = 8;
const char* const RATE = "100Gbps";

uint64_t hops = 0;

void Carried(Ptr<const Packet>) { ++hops; }

// Returns the seconds in which the process has had a core.
double OnCore() {
    std::ifstream file("/proc/self/schedstat");
    uint64_t ns = 0;
    if (!(file >> ns)) {
        std::fprintf(stderr, "dumbbell: /proc/self/schedstat cannot be read: the kernel needs CONFIG_SCHED_INFO\n");
        std::exit(1);
    }
    return static_cast<double>(ns) / 1e9;
}

// Sets what all devices, queues and sockets have.
void SetDefaults() {
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpDctcp::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
    // 1500 bytes with the headers of IP and TCP and TCP's timestamps.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    // Each packet is acknowledged.
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::PointToPointNetDevice::DataRate", StringValue(RATE));
    Config::SetDefault("ns3::PointToPointChannel::Delay", StringValue("1us"));
    // A step at 140 packets, as DCTCP has it: the queue itself, not its mean.
    Config::SetDefault("ns3::RedQueueDisc::MinTh", DoubleValue(140));
    Config::SetDefault("ns3::RedQueueDisc::MaxTh", DoubleValue(140));
    Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(1));
    Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
    Config::SetDefault("ns3::RedQueueDisc::LinkBandwidth", StringValue(RATE));
    Config::SetDefault("ns3::RedQueueDisc::MaxSize", QueueSizeValue(QueueSize("8000p")));
}

} // namespace

int main(int argc, char** argv) {
    const long milliseconds = argc == 2 ? std::strtol(argv[1], nullptr, 10) : 0;
    if (milliseconds < 1) {
        std::fprintf(stderr, "usage: dumbbell MILLISECONDS, such as 20\n");
        return 2;
    }
    SetDefaults();
    NodeContainer left, right, middle;
    left.Create(HOSTS);
    right.Create(HOSTS);
    middle.Create(2);
    // Routes that are found once, which takes less time than tables.
    Ipv4NixVectorHelper routes;
    InternetStackHelper stack;
    stack.SetRoutingHelper(routes);
    stack.InstallAll();

    // Queues are where marks are: in the switches' ports, and in the hosts' devices.
    PointToPointHelper edge, between;
    edge.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000p"));
    between.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    TrafficControlHelper red;
    red.SetRootQueueDisc("ns3::RedQueueDisc");
    TrafficControlHelper none;
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    auto link = [&](PointToPointHelper& helper, Ptr<Node> a, Ptr<Node> b, bool host) {
        NetDeviceContainer devices = helper.Install(a, b);
        for (uint32_t at = 0; at < 2; ++at) {
            const bool of_host = host && at == 0;
            Ptr<PointToPointNetDevice> device = DynamicCast<PointToPointNetDevice>(devices.Get(at));
            device->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Carried));
            if (!of_host) {
                device->GetQueue()->SetMaxSize(QueueSize("1p"));
                red.Install(devices.Get(at));
            }
        }
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        addresses.NewNetwork();
        if (host) {
            none.Uninstall(devices.Get(0));
        }
        return interfaces.GetAddress(0);
    };
    link(between, middle.Get(0), middle.Get(1), false);
    ApplicationContainer sinks;
    for (uint32_t host = 0; host < HOSTS; ++host) {
        link(edge, left.Get(host), middle.Get(0), true);
        const Ipv4Address address = link(edge, right.Get(host), middle.Get(1), true);
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        sinks.Add(sink.Install(right.Get(host)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(address, 9));
        bulk.SetAttribute("SendSize", UintegerValue(1 << 16));
        bulk.Install(left.Get(host));
    }

    const Time length = MilliSeconds(milliseconds);
    Simulator::Stop(length);
    const double began = OnCore();
    Simulator::Run();
    const double took = OnCore() - began;
    const uint64_t events = Simulator::GetEventCount();
    uint64_t bytes = 0;
    for (uint32_t host = 0; host < HOSTS; ++host) {
        bytes += DynamicCast<PacketSink>(sinks.Get(host))->GetTotalRx();
    }
    std::printf("dumbbell, 8 flows: %.2f million hops a second, %.2f million events (%" PRIu64
                " hops in %.2f s; %.1f Gbit/s of data, %.2f ms of %ld simulated a second)\n",
                hops / took / 1e6, events / took / 1e6, hops, took,
                bytes * 8.0 / length.GetSeconds() / 1e9, milliseconds / took, milliseconds);
    Simulator::Destroy();
    return 0;
}
