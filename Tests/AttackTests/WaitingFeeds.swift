import Glibc
import TestSupport
import Testing

/// Feeds on which nothing happens cost next to nothing, however many there are.
@Suite(
    "Feeds that wait", .serialized,
    .disabled(if: getenv("NIGHTJAR_SANITIZER") != nil, "instrumented code takes many times the CPU time and memory that this test allows"))
struct WaitingFeeds {
    private static let feeds = 50
    private static let beats = 4

    @Test("50 feeds that wait cost next to no CPU time, and at most 50 KB each", arguments: ["continuous", "eventsource"])
    func wait(_ kind: String) async throws {
        let hub = try await AgentProcess.start(Attack.hub())
        // The very first request and save bring things into memory that must not be counted as the feeds'.
        let target = "/main/_changes?feed=\(kind)&since=now&heartbeat=1000"
        let first = try await FeedProbe.open(2, of: target, at: try Door.listener.probe(hub))
        // A feed with since=now begins when it is answered.
        try await first.wait(for: "200 OK")
        try await changed(hub, "before", seenBy: first)

        let opening = try Meter(hub)
        let feeds = try await FeedProbe.open(Self.feeds, of: target, at: try Door.listener.probe(hub))
        try await feeds.wait(for: "200 OK")
        try await changed(hub, "one", seenBy: feeds)
        try await changed(hub, "two", seenBy: feeds)
        let opened = try opening.cost()

        // By now changes have woken each feed. From here on only the heartbeats that were asked for may cost anything.
        let waiting = try Meter(hub)
        try await feeds.wait(for: kind == "continuous" ? "\r\n\n\r\n" : "event: heartbeat", times: Self.beats)
        let cost = try waiting.cost()
        if getenv("NIGHTJAR_ATTACK_FIGURES") != nil { print("\(Self.feeds) \(kind) feeds: \(opened) to open, \(cost) to wait for \(Self.beats) signs of life") }
        // A feed that spins would take all the CPU time there is, which is seconds.
        #expect(cost.seconds * 1000 <= Double(100 + 2 * Self.feeds * Self.beats), "\(cost)")
        // The allowance on top is for memory that the allocator takes several pages at a time: more on a busy machine, where more requests are handled at
        // the same time. Without that it is two thirds of 50 KB each.
        #expect(opened.growth <= Self.feeds * 50_000 + (1 << 20), "\(opened)")
        #expect(cost.growth <= 1 << 20, "\(cost)")
        #expect(try await hub.stop().status == 0)
        withExtendedLifetime((first, feeds)) {}
    }

    private func changed(_ hub: AgentProcess, _ id: String, seenBy feeds: FeedProbe) async throws {
        let saved = try await hub.put("main", id, "{}")
        #expect(saved.status < 300, "\(saved)")
        try await feeds.wait(for: "\"id\":\"\(id)\"")
    }
}
