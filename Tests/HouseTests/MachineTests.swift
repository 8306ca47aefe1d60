import Testing

/// The engine's machines do no I/O: events go in, actions come out. So nothing in their folder waits, runs beside, writes to a log
/// or knows of a connection.
@Suite("The engine's machines")
struct MachineTests {
    private static let folder = "Sources/Replication/Engine"

    /// Values and the store's own; of NIO only the bytes, as they came.
    private static let imports: Set<String> = ["Documents", "DocumentStore", "Interfaces", "NIOCore"]

    @Test("they neither wait nor run concurrently, and use only the buffers of NIO")
    func sansIO() {
        let files = SourceFiles.swift(under: Self.folder)
        #expect(files.count > 30)
        for file in files {
            for module in SourceFiles.imports(of: file) {
                #expect(Self.imports.contains(module), "\(file) imports \(module): a machine knows no protocol, connection or log")
            }
            for (line, found) in Self.breaches(in: CodeText(file: file)) {
                Issue.record("\(file):\(line): \(found): a machine says what is to be done, and its driver does it")
            }
        }
    }

    @Test("What breaks the rule is found, and only in code", arguments: [
        ("let page = await store.page()", 1), ("func read() async {}", 1), ("Task { run() }", 1), ("actor Machine {}", 1),
        ("environment.task { run() }", 1), ("var loop: EventLoop", 1), ("let end = NIODeadline.now()", 1), ("Mutex(0)", 1),
        ("// await nobody, no Task", 0), ("var body: ByteBuffer", 0), ("case awaitTime(DocumentID, UInt64)", 0), ("var factor = 2", 0),
    ])
    func rulesFindTheirOwn(code: String, count: Int) {
        #expect(Self.breaches(in: CodeText(Array(code.utf8))).count == count)
    }

    private static let words: Set<String> = [
        "await", "async", "Task", "actor", "task", "AsyncStream", "Logger", "Channel", "EventLoop", "EventLoopFuture", "EventLoopPromise",
        "NIODeadline", "TimeAmount", "Mutex", "Thread",
    ]

    private static func breaches(in code: CodeText) -> [(line: Int, found: String)] {
        EnvironmentTests.words(in: code).flatMap { word -> [(line: Int, found: String)] in
            words.contains(word.text) ? [(code.line(of: word.start), word.text)] : []
        }
    }
}
