import AgentConfiguration
import Glibc
import TestSupport
import Testing

@testable import Agent

@Suite("The file of the log") struct LogFileTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func file(_ name: String = "nightjar.log", maxBytes: Int = 100, files: Int = 3) -> LogFile {
        var settings = LogFileSettings()
        settings.path = Located(folder.path(name))
        settings.maxBytes = maxBytes
        settings.files = files
        return LogFile(settings)
    }

    /// 40 bytes.
    private func line(_ number: Int) -> [UInt8] { Array("line \(number) of forty bytes, with its end...\n".utf8) }

    @Test("is followed by another one when it is full, and only the configured number is kept")
    func rotation() throws {
        var log = file()
        defer { log.shut() }
        let outcomes = (10..<20).map { log.write(line($0)) }
        #expect(outcomes.allSatisfy { $0 == .written }, "\(outcomes)")
        // Two lines fit into each.
        #expect(try folder.read("nightjar.log") == line(18) + line(19))
        #expect(try folder.read("nightjar.log.1") == line(16) + line(17))
        #expect(try folder.read("nightjar.log.2") == line(14) + line(15))
        #expect(!folder.exists("nightjar.log.3"))
    }

    @Test("goes on where it was after a start, and alone where one is kept")
    func starts() throws {
        for number in 10..<13 {
            var log = file(files: 1)
            defer { log.shut() }
            let outcome = log.write(line(number))
            #expect(outcome == .written)
        }
        #expect(try folder.read("nightjar.log") == line(12))
        #expect(!folder.exists("nightjar.log.1"))
    }

    @Test("is created again if somebody moved it away")
    func moved() throws {
        var log = file(maxBytes: 1 << 20)
        defer { log.shut() }
        let before = log.write(line(10))
        try folder.rename("nightjar.log", to: "old")
        let after = log.write(line(11))
        #expect(before == .written && after == .written)
        #expect(try folder.read("old") == line(10))
        #expect(try folder.read("nightjar.log") == line(11))
    }

    @Test("says once why it cannot be written, and goes on when it can")
    func failing() throws {
        var log = file("logs/nightjar.log")
        defer { log.shut() }
        var outcomes = [log.write(line(10)), log.write(line(11))]
        folder.makeFolder("logs")
        outcomes.append(log.write(line(12)))
        folder.remove("logs")
        outcomes.append(log.write(line(13)))
        let reason = "No such file or directory"
        #expect(outcomes == [.failed(reason), .failed(nil), .written, .failed(reason)])
    }

    @Test("is never a pipe, which would hold the agent up")
    func pipe() throws {
        try #require(mkfifo(folder.path("nightjar.log"), 0o600) == 0)
        var log = file()
        defer { log.shut() }
        let outcome = log.write(line(10))
        guard case .failed(_?) = outcome else { return #expect(Bool(false), "\(outcome)") }
    }
}
