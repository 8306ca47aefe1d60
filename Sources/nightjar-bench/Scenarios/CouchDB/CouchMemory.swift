import Glibc

/// Our memory usage for waiting feeds, and for a large attachment.
extension CouchScenario {
    /// Opened before the first measurement, so that one-time allocations do not count.
    private static let warmUp = 50

    func measureListeners(_ scratch: Scratch, _ report: inout Report) async throws {
        try TLSMemoryScenario(connections: listeners).allowDescriptors()
        var kilobytes: [Double] = []
        var milliseconds: [Double] = []
        for round in 0..<rounds {
            let agent = try CouchAgent(agent, folder: "\(scratch.path)/listeners-\(round)")
            let database = agent.database
            func listen() throws -> HTTPConnection {
                let connection = try database.connect()
                try connection.begin("GET", "/\(database.name)/_changes?feed=continuous&since=now&heartbeat=60000", type: "", length: 0)
                guard try connection.answerHead().status == 200 else { throw BenchError("\(database.url) gives no continuous feed") }
                return connection
            }
            var feeds = try (0..<Self.warmUp).map { _ in try listen() }
            try await Task.sleep(for: .seconds(1))
            let before = try residentMegabytes("VmRSS", process: agent.child.process)
            for _ in 0..<listeners { feeds.append(try listen()) }
            try await Task.sleep(for: .seconds(2))
            let after = try residentMegabytes("VmRSS", process: agent.child.process)
            kilobytes.append((after - before) * 1024 / Double(listeners))
            // All of them receive a write, so they were listening.
            let clock = Stopwatch()
            try database.connect().request("PUT", "/\(database.name)/news", Array("{}".utf8), expecting: [201])
            for feed in feeds {
                while try !feed.line().contains("\"id\":\"news\"") {}
            }
            milliseconds.append(clock.cost.seconds * 1_000)
            feeds = []
            try agent.stop()
        }
        report.goal("memory for each of \(listeners) continuous feeds that wait", "KB", kilobytes, .atMost, 50)
        report.add("one write until all of them have told it", "ms", milliseconds)
    }

    func measureAttachment(_ scratch: Scratch, _ report: inout Report) async throws {
        var (up, down, upRate, downRate): ([Double], [Double], [Double], [Double]) = ([], [], [], [])
        for round in 0..<rounds {
            let agent = try CouchAgent(agent, folder: "\(scratch.path)/attachment-\(round)")
            // A small one first, so that one-time allocations do not count.
            _ = try send(megabytes: 1, to: agent.database, "small")
            _ = try take(megabytes: 1, from: agent.database, "small")
            var idle = try forgetPeak(agent.child.process)
            upRate.append(Double(megabytes) / (try send(megabytes: megabytes, to: agent.database, "film")))
            up.append(try residentMegabytes("VmHWM", process: agent.child.process) - idle)
            idle = try forgetPeak(agent.child.process)
            downRate.append(Double(megabytes) / (try take(megabytes: megabytes, from: agent.database, "film")))
            down.append(try residentMegabytes("VmHWM", process: agent.child.process) - idle)
            try agent.stop()
        }
        report.goal("peak above idle, an attachment of \(megabytes) MB up", "MB", up, .atMost, 16)
        report.goal("peak above idle, the same down", "MB", down, .atMost, 16)
        report.add("attachment up", "MB/s", upRate)
        report.add("attachment down", "MB/s", downRate)
    }

    /// Resets the process's peak memory to its present usage, and returns that.
    private func forgetPeak(_ process: pid_t) throws -> Double {
        let path = "/proc/\(process)/clear_refs"
        let descriptor = open(path, O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Files.failure(path) }
        defer { close(descriptor) }
        try Files.write(Array("5".utf8), to: descriptor, path)
        return try residentMegabytes("VmRSS", process: process)
    }

    private func send(megabytes: Int, to database: CouchDatabase, _ id: String) throws -> Double {
        let connection = try database.connect()
        let clock = Stopwatch()
        try connection.begin("PUT", "/\(database.name)/\(id)/film.mp4", type: "video/mp4", length: megabytes << 20)
        var piece = [UInt8](repeating: 0, count: 1 << 20)
        var random = SplitMix(seed: 1)
        // Incompressible bytes that differ in each piece.
        for place in piece.indices { piece[place] = UInt8(truncatingIfNeeded: random.next()) }
        for number in 0..<megabytes {
            piece[number % piece.count] &+= 1
            try connection.send(piece)
        }
        let answer = try connection.answer { _ in }
        guard answer.status == 201 else { throw BenchError("\(database.url): an attachment of \(megabytes) MB is answered \(answer.status)") }
        return clock.cost.seconds
    }

    private func take(megabytes: Int, from database: CouchDatabase, _ id: String) throws -> Double {
        let connection = try database.connect()
        let clock = Stopwatch()
        var count = 0
        let answer = try connection.request("GET", "/\(database.name)/\(id)/film.mp4") { count += $0.count }
        guard answer.status == 200, count == megabytes << 20 else { throw BenchError("\(database.url): \(count) bytes of an attachment of \(megabytes) MB") }
        return clock.cost.seconds
    }
}
