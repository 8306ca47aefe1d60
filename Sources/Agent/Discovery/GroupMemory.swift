import Documents
import Encodings
import Environment
import Glibc
import Logging
import Synchronization

/// The listeners of a group that a replicator reached, across restarts: a small file in the data folder, written as soon as another one is reached.
package final class GroupMemory: Sendable {
    /// `reached_peers_bytes`.
    private static let maximumBytes = 16_384

    private static let suffix = ".hubs"

    private let folder: String
    private let path: String
    private let logger: Logger
    /// The contents of the file, as far as known; also makes sure that the newest contents are written last.
    private let written = Mutex<[String]>([])

    package init(dataFolder: String, replicator: String, logger: Logger) {
        folder = "\(dataFolder)/replicators"
        path = "\(dataFolder)/replicators/\(PercentEncoding.encode(replicator))\(Self.suffix)"
        self.logger = logger
    }

    /// The keys of those that were reached by this target, the last one first. A file that cannot be read counts as empty: they only come first.
    func reached(by target: String) -> [String] {
        let contents = Self.bytes(of: path).flatMap { try? JSONValue(stored: $0) }
        let keys = (contents?["reached"]?.asArray ?? []).compactMap(\.asString)
        written.withLock { $0 = keys }
        return keys.filter { $0.utf8.starts(with: "\(target) ".utf8) }
    }

    /// - Parameter current: returns the keys as they are by now.
    func keep(_ current: () -> [String]) {
        written.withLock { written in
            let keys = current()
            guard keys != written else { return }
            do {
                try Folders.make(folder)
                try DurableFile.write(path, JSONOutput.object(["reached": .array(keys.map { JSONValue.string($0) })]).serialize(), writers: .thisProcess)
                written = keys
            } catch {
                logger.warning("which hubs it reached cannot be kept for the next start, which then tries others first: \(error)")
            }
        }
    }

    /// Removes what replicators left behind that there are no more: a later one of the same name is a different one. Other files in the folder stay.
    ///
    /// - Parameter replicators: the names of those that there are.
    static func forget(except replicators: Set<String>, dataFolder: String, files: any FileSystem, logger: Logger) {
        let folder = "\(dataFolder)/replicators"
        let kept = Set(replicators.map { PercentEncoding.encode($0) + suffix })
        // Without any record there is no folder.
        let names = (try? files.names(in: folder)) ?? []
        for name in names.sorted() where name.hasSuffix(suffix) && !kept.contains(name) {
            let stem = String(name.dropLast(suffix.count)), path = "\(folder)/\(name)"
            // A name that no replicator can have is not ours.
            guard let replicator = PercentEncoding.decode(stem.utf8), !replicator.isEmpty, PercentEncoding.encode(replicator) == stem else { continue }
            do {
                guard try !files.facts(path).isFolder else { continue }
                try files.remove(path)
                logger.info("which hubs the replicator \(replicator) reached is forgotten: there is no such replicator any more")
            } catch {
                logger.warning("which hubs the removed replicator \(replicator) reached cannot be forgotten: \(error); remove the file yourself")
            }
        }
    }

    private static func bytes(of path: String) -> [UInt8]? {
        guard let descriptor = try? RegularFile.open(path, O_RDONLY) else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: maximumBytes)
        let count = bytes.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
        return count > 0 ? Array(bytes[..<count]) : nil
    }
}
