import Glibc
import Interfaces
import PluginHost
import Testing

@Suite(.enabled(if: getenv("NIGHTJAR_MEASURE") != nil))
struct SpeedTests {
    /// Prints figures; judges nothing.
    @Test func filterBatches() async throws {
        let folder = Folder()
        folder.write("two.lua", passes("doc.type == 'reading' and doc.value >= 10"))
        folder.write("none.lua", passes("true"))
        try await withHost(folder.path) { host, _ in
            let body = "{\"type\":\"reading\",\"device\":\"plant-7/line-3\",\"unit\":\"C\",\"tags\":[\"a\",\"b\"],\"at\":\"2026-01-01T00:00:00Z\",\"value\":21.5,\"quality\":{\"ok\":true,\"code\":0}}"
            let batch = (0..<100).map { document(body, id: "document-number-\($0)") }
            for name in ["none", "two"] {
                let filter = try host.filter(name)
                _ = await filter.evaluate(batch, push)
                let clock = ContinuousClock()
                let took = await clock.measure { for _ in 0..<2000 { _ = await filter.evaluate(batch, push) } }
                let one = await clock.measure { for _ in 0..<5000 { _ = await filter.evaluate([batch[0]], push) } }
                print("\(name): \(took / 200_000) a document in batches of 100, \(one / 5000) for a batch of one; p99 \(host.status(name)?.p99Milliseconds ?? 0) ms")
            }
        }
    }
}
