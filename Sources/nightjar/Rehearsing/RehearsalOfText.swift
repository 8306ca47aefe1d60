import Agent
import AgentConfiguration
import Documents
import Environment
import Glibc
import LuaRuntime

/// A rehearsal of a resolver that arrives as text, for the dashboard: while it runs, the text is in a subfolder of the data folder.
enum RehearsalOfText {
    /// `max_rehearsed`: how many conflicts of each database, newest first.
    private static let maximumConflicts = 200

    /// - Parameter source: the candidate, a plugin with `resolve`.
    /// - Returns: its result for each conflict, as `nightjar conflicts replay --json` prints it.
    @Sendable static func run(_ source: [UInt8], _ accesses: [ConflictAccess], _ settings: AgentSettings) async throws -> JSONValue {
        let folder = try Folder(in: settings.data.value, source)
        let rehearsal = try await Rehearsal(file: folder.file, params: .missing, settings: settings)
        do {
            var outcomes: [JSONValue] = []
            for access in accesses {
                var left = maximumConflicts
                var before: Int64?
                while left > 0 {
                    var page: [JSONValue] = []
                    try await access.forEachDecided(before: before, limit: min(left, 50), includeBodies: true) { page += $0 }
                    guard let oldest = page.last?["number"]?.asInt64 else { break }
                    for conflict in page { outcomes.append(try await rehearsal.run(conflict).json) }
                    left -= page.count
                    before = oldest
                }
            }
            await rehearsal.end()
            return JSONOutput.object(["version": .string(rehearsal.version), "conflicts": .array(outcomes)])
        } catch {
            await rehearsal.end()
            throw error
        }
    }

    /// A folder that contains the candidate, removed with the last reference.
    private final class Folder: Sendable {
        let path: String
        var file: String { "\(path)/candidate.lua" }

        init(in data: String, _ source: [UInt8]) throws(AgentError) {
            var template = Array("\(data)/rehearsal-XXXXXX".utf8CString)
            guard mkdtemp(&template) != nil else {
                throw AgentError(.failed, "cannot make a folder in \(data): \(String(cString: strerror(errno)))")
            }
            path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let descriptor = open("\(path)/candidate.lua", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            let written = descriptor < 0 ? -1 : write(descriptor, source, source.count)
            if descriptor >= 0 { close(descriptor) }
            guard written == source.count else { throw AgentError(.failed, "cannot write \(file): \(String(cString: strerror(errno)))") }
        }

        deinit {
            unlink(file)
            rmdir(path)
        }
    }
}
