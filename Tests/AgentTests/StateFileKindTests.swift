import Environment
import Glibc
import Logging
import TestSupport
import Testing

@testable import Agent

/// Pipes in the place of the agent's own files: nobody is at their other end, and nobody is waited for.
@Suite(.timeLimit(.minutes(5))) struct StateFileKindTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func pipe(_ name: String) throws -> String {
        try #require(mkfifo(folder.path(name), 0o600) == 0)
        return folder.path(name)
    }

    private func isPipe(_ path: String) -> Bool {
        var facts = stat()
        return stat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFIFO
    }

    @Test func theAuditLogIsNeitherReadNorWritten() throws {
        let path = try pipe("audit.log")
        let error = #expect(throws: AgentError.self) { try AuditLog.last(5, dataFolder: folder.path) }
        #expect(error.map { "\($0)" }?.contains("\(path): is a pipe, and a regular file is expected") == true)
        let log = AuditLog(dataFolder: folder.path, time: SystemTime(), logger: Logger(label: "test"))
        log.note(AuditLog.Entry(who: "ada", from: "127.0.0.1", action: "login", outcome: "200"))
        #expect(isPipe(path))
    }

    @Test func theReserveOfTheDiskIsNotMade() throws {
        let path = try pipe(DiskReserve.name)
        DiskReserve(folder: folder.path, logger: Logger(label: "test")).look(wanted: 1 << 20)
        #expect(isPipe(path))
    }

    @Test func theGatewayGoesWithoutItsIdentifier() throws {
        let path = try pipe("peer.id")
        #expect(PeerIdentifier.current(data: folder.path, SystemRandom()) == nil)
        #expect(isPipe(path))
    }

    /// Databases, blobs and the fleet's documents.
    @Test func filesOfTheStoreAreToldByTheirKind() throws {
        let path = try pipe("db.sqlite3")
        let error = #expect(throws: FileError.self) { _ = try SystemFiles().open(path, .read) }
        #expect(error?.description == "\(path): is a pipe, and a regular file is expected")
        let atFolder = #expect(throws: FileError.self) { _ = try SystemFiles().open(folder.path, .read) }
        #expect(atFolder?.reason == "is a folder, and a regular file is expected")
        let missing = #expect(throws: FileError.self) { _ = try SystemFiles().open(folder.path("none"), .read) }
        #expect(missing?.isMissing == true)
    }
}
