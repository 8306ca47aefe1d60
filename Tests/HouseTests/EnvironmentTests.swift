import Testing

/// Time, chance, threads and tasks come from the environment that is passed in, so that a run in the simulator depends on its
/// seed alone.
@Suite("The environment is passed in")
struct EnvironmentTests {
    /// Where the machine's own clocks, generator and threads are read.
    static let home = "Sources/Environment/"

    /// A file, or a folder with a slash at its end, that reaches around it.
    struct Edge {
        var path: String
        /// What it may reach; nil for everything.
        var found: Set<String>?
        var why: String

        init(_ path: String, _ found: String..., why: String) {
            (self.path, self.why) = (path, why)
            self.found = found.isEmpty ? nil : Set(found)
        }

        func holds(_ file: String) -> Bool { path.hasSuffix("/") ? file.hasPrefix(path) : file == path }
        func excuses(_ file: String, _ breach: String) -> Bool { holds(file) && found?.contains(breach) ?? true }
    }

    /// Files that may use the machine's own clocks, threads and randomness.
    static let edges = [
        Edge("Sources/nightjar/Printing/Progress.swift", "ContinuousClock", why: "a terminal's progress line, for the eyes of whoever typed the command"),
        Edge("Sources/PluginHost/Running/ThreadTime.swift", "clock_gettime", why: "processor time of a thread, which no other clock stands for"),
        Edge("Sources/PluginHost/Hosting/Supervisor.swift", "SystemTime", why: "waits in poll(2) for inotify, which goes by the machine's own clock"),
        Edge("Sources/CLua/budget.c", "clock_gettime", why: "processor time of a script, and the cheaper clock that says when a look at it pays"),
        Edge("Sources/CLua/watch.c", "timer_create", why: "processor time of a script"),
        Edge("Sources/Transport/HTTPClient/", "NIODeadline.now()", why: "the event loop's own clock runs its timers"),
        Edge("Sources/Transport/Client/WebSocketClient.swift", "NIODeadline.now()", why: "the event loop's own clock runs its timers"),
        Edge("Sources/Transport/Network/OutgoingPipeline.swift", "NIODeadline.now()", why: "the event loop's own clock runs its timers"),
        Edge("Sources/Transport/Network/SystemResolver.swift", "NIOThreadPool", why: "getaddrinfo(3) blocks, and its answer goes to an event loop"),
        Edge("Sources/Transport/Listener/ListenAddresses.swift", "NIOThreadPool", why: "getaddrinfo(3) blocks"),
        Edge("Sources/nightjar/Diagnosing/PeerExamination.swift", "NIOThreadPool", why: "getaddrinfo(3) blocks"),
        Edge("Sources/Digests/KeyedDigests.swift", "RAND_bytes", why: "keys and salts want OpenSSL's generator"),
        Edge("Sources/System/COpenSSL/certificates.h", "EVP_PKEY_Q_keygen", why: "keys want OpenSSL's generator"),
        Edge("Sources/nightjar-bench/", why: "measures this machine: simulated figures would be worthless"),
    ]

    /// Targets that the simulator runs: their tasks have to be its own.
    static let simulated = ["Sources/Replication/", "Sources/DocumentStore/"]

    @Test("Clocks, randomness and threads are taken from the environment only")
    func nothingReachesAround() {
        for file in Self.files where !file.hasPrefix(Self.home) {
            for (line, found) in Self.breaches(in: CodeText(file: file)) where !Self.edges.contains(where: { $0.excuses(file, found) }) {
                Issue.record("\(file):\(line): \(found): take it from the environment that is passed in (Sources/Environment)")
            }
        }
    }

    @Test("Targets that are simulated start their tasks through the environment")
    func noRawTasks() {
        for file in SourceFiles.swift(under: "Sources") where Self.simulated.contains(where: { file.hasPrefix($0) }) {
            for (line, found) in Self.rawTasks(in: CodeText(file: file)) {
                Issue.record("\(file):\(line): \(found): start it with environment.task")
            }
        }
    }

    @Test("Every edge that is listed uses what it is allowed to")
    func edgesExist() {
        for edge in Self.edges {
            let found = Set(Self.files.filter { edge.holds($0) }.flatMap { Self.breaches(in: CodeText(file: $0)).map(\.found) })
            #expect(!found.isEmpty, "\(edge.path) is listed as an edge and is none")
            for name in edge.found ?? [] { #expect(found.contains(name), "\(edge.path) may reach for \(name) and does not") }
        }
    }

    @Test("What breaks the rule is found, and only in code", arguments: [
        ("let now = Int64(time(nil))", 1), ("let now = Glibc.time(nil)", 1), ("clock_gettime(CLOCK_MONOTONIC, &now)", 1),
        ("var generator = SystemRandomNumberGenerator()", 1), ("try await Task.sleep(for: .seconds(1))", 1),
        ("let clock = ContinuousClock()", 1), ("SuspendingClock.now", 1), ("Date()", 1), ("UUID()", 1), ("pthread_create(&a, nil, f, nil)", 1),
        ("getentropy(a, 8)", 1), ("Int.random(in: 0..<9)", 1), ("list.shuffled()", 1), ("list.randomElement()", 1), ("SystemTime().sleep", 1),
        ("NIODeadline.now() + patience", 1), ("var end: NIODeadline = .now()", 1), ("NIOThreadPool.singleton.runIfActive { }", 1),
        ("RAND_bytes(a, 8)", 1), ("Bool.random()", 1), ("random()", 1), ("rand()", 1), ("try await Task<Never, Never>.sleep(for: a)", 1),
        ("sleep(1)", 1), ("Glibc.sleep(1)", 1), ("usleep(1)", 1), ("DispatchQueue.main", 1), ("print(\"it is \\(time(nil))\")", 1), ("let text = #\"a \\#(Date()) b\"#", 1),
        ("Int.random(in: 0..<9, using: &generator)", 0), ("Int.random(in: low(1)..<high(2), using: &generator)", 0),
        ("// time(nil) is not asked here", 0), ("/* a /* Date() */ UUID() */", 0), ("print(\"time(nil)\")", 0),
        ("let text = \"\"\"\n  Date() \"quoted\" UUID()\n  \"\"\"", 0), ("let text = #\"\\(Date())\"#", 0), ("let text = \"\\\"Date()\"", 0),
        ("environment.time.wallSeconds()", 0), ("let time = time", 0), ("settings.time(1)", 0), ("func uptime(_ a: Int)", 0),
        ("list.shuffled(using: &generator)", 0), ("var expiryDate()", 0),
        ("await sleep(1)", 0), ("func sleep(_ a: Int) async", 0), ("time.sleep(seconds: 1)", 0), ("eventLoop.now", 0), ("host.now()", 0),
        ("let a = clock()", 0), ("var end: NIODeadline", 0),
    ])
    func rulesFindTheirOwn(code: String, count: Int) {
        #expect(Self.breaches(in: CodeText(Array(code.utf8))).count == count)
    }

    @Test("What breaks the rule is found in C", arguments: [
        ("return (long)time(NULL);", 1), ("clock_gettime(clock, &t);", 1), ("long n = clock();", 1), ("sleep(1);", 1), ("EVP_PKEY_Q_keygen(NULL)", 1),
        ("if (c == '\"') t = time(NULL);", 1), ("c = '\\''; s = \"a\"; t = time(NULL);", 1), ("/* a /* b */ t = time(NULL);", 1), ("s = \"\"\"a\"; rand();", 1),
        ("s = \"time(NULL)\";", 0), ("// time(NULL)", 0), ("/* time(NULL) */", 0), ("static int64_t now(clockid_t clock) {", 0),
        ("struct itimerspec time;", 0), ("nj_time(L);", 0),
    ])
    func rulesFindTheirOwnInC(code: String, count: Int) {
        #expect(Self.breaches(in: CodeText(Array(code.utf8), isC: true)).count == count)
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

    private static let files = SourceFiles.swift(under: "Sources") + SourceFiles.c(under: "Sources")

    /// Names that are a breach wherever they stand.
    private static let names: Set<String> = [
        "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "usleep", "SystemRandomNumberGenerator", "ContinuousClock",
        "SuspendingClock", "pthread_create", "getentropy", "getrandom", "arc4random", "DispatchQueue", "SystemTime", "SystemRandom",
        "timer_create", "timerfd_create", "setitimer", "NIOThreadPool", "RAND_bytes", "RAND_priv_bytes", "EVP_PKEY_keygen", "EVP_PKEY_generate",
        "EVP_PKEY_Q_keygen",
    ]

    /// C's functions, which a method or a closure may be named after.
    private static func isC(_ word: Word) -> Bool {
        word.next == UInt8(ascii: "(") && (word.owner == nil || word.owner == "Glibc") && word.before != "func"
    }

    /// Breaches with their lines.
    static func breaches(in code: CodeText) -> [(line: Int, found: String)] {
        words(in: code).compactMap { word -> (line: Int, found: String)? in
            let found: String?
            switch word.text {
            case let name where names.contains(name): found = name
            // The C function, not a method of that name.
            case "time" where isC(word), "rand" where isC(word): found = "\(word.text)("
            // That one keeps its thread, and nobody awaits it.
            case "sleep" where isC(word) && word.before != "await": found = "sleep("
            case "clock" where code.isC && isC(word): found = "clock("
            case "sleep" where word.owner == "Task" || word.owner == "" && code.bytes[..<(word.start - 1)].last == UInt8(ascii: ">"):
                found = "Task.sleep"
            // Of `.now()` nothing else has parentheses.
            case "now" where word.arguments == "" && (word.owner == "NIODeadline" || word.owner == ""): found = "NIODeadline.now()"
            case "random" where word.arguments == "" && word.before != "func": found = "random() without a generator"
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
        /// The word in front of it, with nothing but blanks between.
        var before: String?
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
            if let last = words.last, last.end < start, bytes[last.end..<start].allSatisfy({ $0 == UInt8(ascii: " ") }) { word.before = last.text }
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
