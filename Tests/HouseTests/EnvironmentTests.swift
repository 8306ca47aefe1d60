import Testing

/// Time, chance, threads and tasks come from the environment that is passed in, so that a run in the simulator depends on its
/// seed alone.
@Suite("The environment is passed in")
struct EnvironmentTests {
    /// Where the machine's own clocks, generator and threads are read.
    static let home = "Sources/Environment/"

    /// Files at the edge of the house that reach around it, and why.
    static let edges: [String: String] = [
        "Sources/nightjar/Printing/Progress.swift": "a terminal's progress line, for the eyes of whoever typed the command",
        "Sources/PluginHost/Running/ThreadTime.swift": "processor time of a thread, which no other clock stands for",
        "Sources/PluginHost/Hosting/Supervisor.swift": "waits in poll(2) for inotify, which goes by the machine's own clock",
        // Measures this machine: simulated figures would be worthless.
        "Sources/nightjar-bench/": "measures this machine",
    ]

    /// Rooms that the simulator runs: their tasks have to be its own.
    static let simulated = ["Sources/Replication/", "Sources/DocumentStore/"]

    @Test("Clocks, randomness and threads are taken from the environment only")
    func nothingReachesAround() {
        for file in SourceFiles.swift(under: "Sources") where !file.hasPrefix(Self.home) && !Self.isExcused(file) {
            for (line, found) in Self.breaches(in: CodeText(SourceFiles.bytes(of: "\(SourceFiles.root)/\(file)"))) {
                Issue.record("\(file):\(line): \(found): take it from the environment that is passed in (Sources/Environment)")
            }
        }
    }

    @Test("Rooms that are simulated start their tasks through the environment")
    func noRawTasks() {
        for file in SourceFiles.swift(under: "Sources") where Self.simulated.contains(where: { file.hasPrefix($0) }) && !Self.isExcused(file) {
            for (line, found) in Self.rawTasks(in: CodeText(SourceFiles.bytes(of: "\(SourceFiles.root)/\(file)"))) {
                Issue.record("\(file):\(line): \(found): start it with environment.task")
            }
        }
    }

    @Test("Every edge that is listed is there")
    func edgesExist() {
        let files = SourceFiles.swift(under: "Sources")
        for edge in Self.edges.keys { #expect(files.contains { $0.hasPrefix(edge) }, "\(edge) is listed as an edge and is gone") }
    }

    @Test("What breaks the rule is found, and only in code", arguments: [
        ("let now = Int64(time(nil))", 1), ("let now = Glibc.time(nil)", 1), ("clock_gettime(CLOCK_MONOTONIC, &now)", 1),
        ("var generator = SystemRandomNumberGenerator()", 1), ("try await Task.sleep(for: .seconds(1))", 1),
        ("let clock = ContinuousClock()", 1), ("SuspendingClock.now", 1), ("Date()", 1), ("UUID()", 1), ("pthread_create(&a, nil, f, nil)", 1),
        ("getentropy(a, 8)", 1), ("Int.random(in: 0..<9)", 1), ("list.shuffled()", 1), ("list.randomElement()", 1), ("SystemTime().sleep", 1),
        ("DispatchQueue.main", 1), ("print(\"it is \\(time(nil))\")", 1), ("let text = #\"a \\#(Date()) b\"#", 1),
        ("Int.random(in: 0..<9, using: &generator)", 0), ("Int.random(in: low(1)..<high(2), using: &generator)", 0),
        ("// time(nil) is not asked here", 0), ("/* a /* Date() */ UUID() */", 0), ("print(\"time(nil)\")", 0),
        ("let text = \"\"\"\n  Date() \"quoted\" UUID()\n  \"\"\"", 0), ("let text = #\"\\(Date())\"#", 0), ("let text = \"\\\"Date()\"", 0),
        ("environment.time.wallSeconds()", 0), ("let time = time", 0), ("settings.time(1)", 0), ("func uptime(_ a: Int)", 0),
        ("list.shuffled(using: &generator)", 0), ("var expiryDate()", 0),
    ])
    func rulesFindTheirOwn(code: String, count: Int) {
        #expect(Self.breaches(in: CodeText(Array(code.utf8))).count == count)
    }

    @Test("A raw task is found", arguments: [
        ("Task { await run() }", 1), ("Task(priority: .low) { await run() }", 1), ("Task.detached { run() }", 1), ("Task<Void, Never> { }", 1),
        ("environment.task { await run() }", 0), ("var running: Task<Void, Never>?", 0), ("Task.isCancelled", 0), ("WriterTask { }", 0),
        ("// Task { }", 0),
    ])
    func taskRuleFindsItsOwn(code: String, count: Int) {
        #expect(Self.rawTasks(in: CodeText(Array(code.utf8))).count == count)
    }

    // MARK: - The rules

    private static func isExcused(_ file: String) -> Bool {
        edges.keys.contains { $0.hasSuffix("/") ? file.hasPrefix($0) : file == $0 }
    }

    /// Names that are a breach wherever they stand.
    private static let names: Set<String> = [
        "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "usleep", "SystemRandomNumberGenerator", "ContinuousClock",
        "SuspendingClock", "pthread_create", "getentropy", "getrandom", "arc4random", "DispatchQueue", "SystemTime", "SystemRandom",
    ]

    /// Breaches with their lines.
    static func breaches(in code: CodeText) -> [(line: Int, found: String)] {
        words(in: code).compactMap { word -> (line: Int, found: String)? in
            let found: String?
            switch word.text {
            case let name where names.contains(name): found = name
            // The C function, not a method of that name.
            case "time" where word.next == UInt8(ascii: "(") && (word.owner == nil || word.owner == "Glibc"): found = "time("
            case "sleep" where word.owner == "Task": found = "Task.sleep"
            case "Date" where word.arguments == "", "UUID" where word.arguments == "": found = "\(word.text)()"
            case "shuffled" where word.arguments == "", "shuffle" where word.arguments == "", "randomElement" where word.arguments == "":
                found = "\(word.text)() without a generator"
            case "random" where word.arguments.map { $0.hasPrefix("in:") && !$0.contains("using:") } == true:
                found = "random(in:) without a generator"
            default: found = nil
            }
            return found.map { (code.line(of: word.start), $0) }
        }
    }

    static func rawTasks(in code: CodeText) -> [(line: Int, found: String)] {
        words(in: code).compactMap { word -> (line: Int, found: String)? in
            if word.text == "detached", word.owner == "Task" { return (code.line(of: word.start), "Task.detached") }
            guard word.text == "Task", word.owner == nil else { return nil }
            let rest = String(decoding: code.bytes[word.end...].prefix(60), as: UTF8.self)
            guard let match = try? /^(<[^>{(]*>)?\s*[{(]/.firstMatch(in: rest), !match.0.isEmpty else { return nil }
            return (code.line(of: word.start), "Task {")
        }
    }

    struct Word {
        var text: String
        var start: Int
        var end: Int
        /// What stands before a dot in front of it; "" for something that is no word.
        var owner: String?
        /// The byte behind it.
        var next: UInt8?
        /// What stands in the parentheses behind it, without surrounding blanks.
        var arguments: String?
    }

    static func words(in code: CodeText) -> [Word] {
        let bytes = code.bytes
        func isPart(_ byte: UInt8) -> Bool {
            byte == UInt8(ascii: "_") || (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        }
        var words: [Word] = []
        var at = 0
        while at < bytes.count {
            guard isPart(bytes[at]) else {
                at += 1
                continue
            }
            let start = at
            while at < bytes.count, isPart(bytes[at]) { at += 1 }
            var word = Word(text: String(decoding: bytes[start..<at], as: UTF8.self), start: start, end: at)
            word.next = at < bytes.count ? bytes[at] : nil
            if start > 0, bytes[start - 1] == UInt8(ascii: ".") {
                word.owner = words.last.map { $0.end == start - 1 ? $0.text : "" } ?? ""
            }
            if word.next == UInt8(ascii: "(") { word.arguments = arguments(bytes, at) }
            words.append(word)
        }
        return words
    }

    private static func arguments(_ bytes: [UInt8], _ open: Int) -> String {
        var depth = 0
        for index in open..<bytes.count {
            if bytes[index] == UInt8(ascii: "(") { depth += 1 }
            if bytes[index] == UInt8(ascii: ")") { depth -= 1 }
            guard depth == 0 else { continue }
            let inside = String(decoding: bytes[(open + 1)..<index], as: UTF8.self)
            return String(inside.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
        }
        return ""
    }
}
