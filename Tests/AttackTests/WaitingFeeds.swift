import Glibc
import TestSupport
import Testing

/// Feeds on which nothing happens cost next to nothing, however many there are.
@Suite(
    "Feeds that wait", .serialized,
    .disabled(if: getenv("NIGHTJAR_SANITIZER") != nil, "instrumented code costs many times the CPU time and memory that is judged here"))
struct WaitingFeeds {
    private static let feeds = 50
    private static let beats = 4

    @Test("50 feeds that wait cost no CPU time, and 50 KB each", arguments: ["continuous", "eventsource"])
    func wait(_ kind: String) async throws {
        let hub = try await AgentProcess.start(Attack.hub())
        // What the first request and the first save of all bring into memory is not a feed's.
        let target = "/main/_changes?feed=\(kind)&since=now&heartbeat=1000"
        let first = try await FeedProbe.open(2, of: target, at: try Door.listener.probe(hub))
        // A feed from now on begins when it is answered.
        try await first.wait(for: "200 OK")
        try await changed(hub, "before", seenBy: first)

        let opening = try Meter(hub)
        let feeds = try await FeedProbe.open(Self.feeds, of: target, at: try Door.listener.probe(hub))
        try await feeds.wait(for: "200 OK")
        try await changed(hub, "one", seenBy: feeds)
        try await changed(hub, "two", seenBy: feeds)
        let opened = try opening.cost()

        // Each feed has been woken by changes by now. While the signs of life come that were asked for, only they cost anything.
        let waiting = try Meter(hub)
        try await feeds.wait(for: kind == "continuous" ? "\r\n\n\r\n" : "event: heartbeat", times: Self.beats)
        let cost = try waiting.cost()
        if getenv("NIGHTJAR_ATTACK_FIGURES") != nil { print("\(Self.feeds) \(kind) feeds: \(opened) to open, \(cost) to wait for \(Self.beats) signs of life") }
        // A feed that spins takes all the CPU time there is, seconds of it.
        #expect(cost.seconds * 1000 <= Double(100 + 2 * Self.feeds * Self.beats), "\(cost)")
        // Pages that the allocator takes at a time are no single feed's.
        #expect(opened.growth <= Self.feeds * 50_000 + (256 << 10), "\(opened)")
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
