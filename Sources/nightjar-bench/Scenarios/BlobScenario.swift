import DocumentStore
import Documents

/// A large blob replicated between two processes: the memory that both ends need beyond a push of one small document.
struct BlobScenario {
    var megabytes = 2_048
    var rounds = 3

    func run(_ scratch: Scratch) async throws -> Report {
        var pusher: [Double] = []
        var hub: [Double] = []
        var rate: [Double] = []
        for round in 0..<rounds {
            let small = try await push(megabytes: 0, "\(scratch.path)/small-\(round)")
            let large = try await push(megabytes: megabytes, "\(scratch.path)/large-\(round)")
            pusher.append((large.pusherPeak ?? 0) - (small.pusherPeak ?? 0))
            hub.append((large.hubPeak ?? 0) - (small.hubPeak ?? 0))
            rate.append(Double(megabytes) / large.seconds)
        }
        var report = Report(scenario: "blob", title: "a blob of \(megabytes) MB over a loopback WebSocket, a process for each side")
        report.goal("peak of the pushing side above that of a push without it", "MB", pusher, .atMost, 16)
        report.goal("peak of the receiving side above that of a push without it", "MB", hub, .atMost, 16)
        report.add("rate", "MB/s", rate)
        return report
    }

    private func push(megabytes: Int, _ folder: String) async throws -> PushRun {
        try Files.makeFolder(folder)
        let source = "\(folder)/gateway"
        var options = DatabaseOptions()
        options.maxBlobBytes = 1 << 40
        let database = try Database.open(folder: source, name: "gateway", options: options)
        guard let collection = database.collection(.default) else { throw BenchError("a database without its default collection") }
        var body = "{}"
        if megabytes > 0 {
            let digest = try await database.blobs.perform { blobs in
                let writer = try blobs.writer()
                var piece = [UInt8](repeating: 0, count: 1 << 20)
                for number in 0..<megabytes {
                    // Incompressible bytes that differ in each piece.
                    var state = UInt64(number) &* 0x9E37_79B9_7F4A_7C15 | 1
                    for index in piece.indices {
                        state ^= state << 13
                        state ^= state >> 7
                        state ^= state << 17
                        piece[index] = UInt8(truncatingIfNeeded: state)
                    }
                    try writer.append(piece)
                }
                return try writer.finish()
            }
            body = "{\"film\":{\"@type\":\"blob\",\"content_type\":\"video/mp4\",\"digest\":\"\(digest)\",\"length\":\(megabytes << 20)}}"
        }
        let bytes = Array(body.utf8)
        try await database.write { _ = try $0.save(collection, id: DocumentID("film"), body: bytes, deleted: false, parent: nil) }
        database.close()
        let run = try await PushRun.run(source: source, hub: "\(folder)/hub", documents: 1, processes: 2)
        Files.remove(folder)
        return run
    }
}
