import Documents
import DocumentStore
import Interfaces
import Replication
import Synchronization
import Testing

/// A transform made from a closure.
private final class TestTransform: DocumentTransform, Sendable {
    typealias Rule = @Sendable (PolicyDocument) -> TransformResult
    private let rule: Mutex<Rule>
    private let versions = Versions()
    let pluginName = "test-transform"
    var version: String { versions.current }

    init(_ rule: @escaping Rule) { self.rule = Mutex(rule) }

    func transform(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [TransformResult] {
        let rule = rule.withLock { $0 }
        return documents.map(rule)
    }

    func versionChanges() -> AsyncStream<String> { versions.stream() }

    func become(_ version: String, _ new: @escaping Rule) {
        rule.withLock { $0 = new }
        versions.become(version)
    }
}

/// Documents that are sent with a different body from the one they are stored with.
@Suite(.timeLimit(.minutes(10)))
struct TransformTests {
    private static let redacted: TestTransform.Rule = { $0.isDeleted ? .same : .changed(Array("{\"kind\":\"order\"}".utf8)) }

    @Test func pushedDocumentsAreTransformedAndDoNotGoInCircles() async throws {
        let (device, hub, third) = (try TestDatabase("device"), try TestDatabase("hub"), try TestDatabase("third"))
        let (center, transform) = (Hub(hub), TestTransform(Self.redacted))
        let revision = try await device.put("a", "{\"kind\":\"order\",\"owner\":\"anna\"}")
        func settings(_ configuration: inout ReplicatorConfiguration) {
            configuration.only { $0.pushFilter = TransformingFilter(nil, transform) }
        }
        #expect(await replicate(device, center, .pushAndPull, settings).counts.pushed == 1)
        #expect(try await hub.body("a") == "{\"kind\":\"order\"}")
        #expect(try await hub.get("a")?.revision == revision)
        #expect(try await device.body("a") == "{\"kind\":\"order\",\"owner\":\"anna\"}")
        // A ring: hub to third, and third to device. The revision is the same everywhere, so that it comes to rest.
        await replicate(third, center)
        let last = await replicate(third, Hub(device))
        #expect(last.error == nil && last.counts.pushed == 0 && last.counts.pulled == 0)
        let again = await replicate(device, center, .pushAndPull, settings)
        #expect(again.error == nil && again.counts.pushed == 0 && again.counts.pulled == 0)
        // Two edits, one elsewhere and one here: both arrive, the one from here without what is meant to stay here.
        try await third.put("a", "{\"kind\":\"order\",\"n\":2}")
        await replicate(third, center)
        await replicate(device, center, .pushAndPull, settings)
        #expect(try await device.body("a") == "{\"kind\":\"order\",\"n\":2}")
    }

    @Test func pulledDocumentsAreTransformedAfterTheFilterAndStored() async throws {
        let (device, hub) = (try TestDatabase("device"), try TestDatabase("hub"))
        let (center, transform) = (Hub(hub), TestTransform(Self.redacted))
        let filter = TestFilter { document, _ in document.id.text == "no" ? .reject : .pass }
        let revision = try await hub.put("a", "{\"kind\":\"order\",\"owner\":\"anna\"}")
        try await hub.put("no", "{}")
        func settings(_ configuration: inout ReplicatorConfiguration) {
            configuration.only { $0.pullFilter = TransformingFilter(filter, transform) }
        }
        let status = await replicate(device, center, .pushAndPull, settings)
        #expect(status.error == nil && status.counts.pulled == 1 && status.counts.rejected == 1)
        #expect(try await device.body("a") == "{\"kind\":\"order\"}")
        #expect(try await device.get("a")?.revision == revision)
        #expect(try await device.get("no") == nil)
        let again = await replicate(device, center, .pushAndPull, settings)
        #expect(again.counts.pushed == 0 && again.counts.pulled == 0)
        #expect(try await hub.body("a") == "{\"kind\":\"order\",\"owner\":\"anna\"}")
    }

    /// Both sides then have the same revision with different bodies: a delta made for one body does not fit the other.
    @Test func aTransformedRevisionIsNotUsedAsTheBaseOfADelta() async throws {
        let (device, hub) = (try TestDatabase("device"), try TestDatabase("hub"))
        let center = Hub(hub)
        let text = (0..<400).map { String($0 * 7_919 % 10_007, radix: 36) }.joined()
        let transform = TestTransform { $0.isDeleted ? .same : .changed(Array("{\"kind\":\"order\",\"text\":\"\(text)\"}".utf8)) }
        func settings(_ configuration: inout ReplicatorConfiguration) {
            configuration.only { $0.pushFilter = TransformingFilter(nil, transform) }
        }
        try await device.put("a", "{\"kind\":\"order\",\"owner\":\"anna\",\"text\":\"\(text)\"}")
        await replicate(device, center, .pushAndPull, settings)
        let edited = "{\"kind\":\"order\",\"text\":\"\(text)\",\"n\":2}"
        try await hub.put("a", edited)
        await replicate(device, center, .pushAndPull, settings)
        #expect(try await device.body("a") == edited)
        #expect(center.counters.snapshot.deltas.sent == 0)
    }

    /// Results that cannot be sent, and a transform that fails.
    @Test(arguments: ["{", "[]", "{\"_removed\":true}", "{\"_attachments\":7}", "{\"a\":1e}", "fail", "large"])
    func documentsThatCannotBeTransformedAreHeld(_ result: String) async throws {
        let (device, hub) = (try TestDatabase("device"), try TestDatabase("hub"))
        let transform = TestTransform { _ in
            switch result {
            case "fail": .failed(PolicyFailure(plugin: "test-transform", version: "1", kind: "plugin_error", message: "t.lua:1: broken"))
            case "large": .changed(Array("{\"a\":\"".utf8) + [UInt8](repeating: 0x61, count: 2_000) + Array("\"}".utf8))
            default: .changed(Array(result.utf8))
            }
        }
        var limits = ReplicationLimits()
        limits.maximumDocumentBytes = 1_000
        try await device.put("out", "{}")
        try await hub.put("in", "{}")
        let both = TransformingFilter(nil, transform, limits: limits)
        func settings(_ configuration: inout ReplicatorConfiguration) {
            configuration.only {
                $0.pushFilter = both
                $0.pullFilter = both
            }
        }
        let status = await replicate(device, Hub(hub), .pushAndPull, settings)
        #expect(status.error == nil && status.counts.held == 2 && status.counts.pushed == 0 && status.counts.pulled == 0)
        #expect(try await hub.get("out") == nil)
        #expect(try await device.get("in") == nil)
        // Another version works, and both documents are replicated.
        transform.become("2", Self.redacted)
        await replicate(device, Hub(hub), .pushAndPull, settings)
        #expect(try await hub.body("out") == "{\"kind\":\"order\"}")
        #expect(try await device.body("in") == "{\"kind\":\"order\"}")
    }
}
