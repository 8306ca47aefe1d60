import Documents
import Environment
import Interfaces

/// What all simulated policies have in common: a version in force, and watchers that are told of each new one.
///
/// Unchecked: used only on the simulation's one thread.
package class SimulatedPolicy: @unchecked Sendable {
    /// How the version in force behaves.
    package enum Mood: Sendable { case well, failing, slow, rejecting }

    package let pluginName: String
    package private(set) var version = "1"
    package private(set) var mood = Mood.well
    /// The kinds of failure that it has had so far.
    package private(set) var failures: Set<String> = []
    private var number = 1
    private var watchers: [AsyncStream<String>.Continuation] = []

    package init(_ name: String) { pluginName = name }

    package func versionChanges() -> AsyncStream<String> {
        let (stream, continuation) = AsyncStream.makeStream(of: String.self, bufferingPolicy: .bufferingNewest(1))
        watchers.append(continuation)
        return stream
    }

    /// Brings another version into force, which behaves like this.
    package func change(_ mood: Mood) {
        number += 1
        version = String(number)
        self.mood = mood
        for watcher in watchers { watcher.yield(version) }
    }

    func failure(_ kind: String, _ version: String) -> PolicyFailure {
        failures.insert(kind)
        return PolicyFailure(plugin: pluginName, version: version, kind: kind, message: "simulated")
    }
}

/// Rejects documents whose id begins with x, in every version; apart from that it behaves as its mood says.
package final class SimulatedFilter: SimulatedPolicy, DocumentFilter, @unchecked Sendable {
    private let time: SimulatedTime

    package init(_ name: String, _ time: SimulatedTime) {
        self.time = time
        super.init(name)
    }

    package func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        let (mood, version) = (mood, version)
        try? await time.sleep(nanoseconds: mood == .slow ? 2_000_000_000 : 300_000)
        return documents.map { document in
            if document.id.text.hasPrefix("x") { return .reject }
            // The mood concerns only some of the documents.
            let isChosen = document.id.text.utf8.last.map { $0 % 2 == 0 } ?? false
            return switch mood {
            case .well: .pass
            case .failing: isChosen ? .failed(failure("plugin_error", version)) : .pass
            case .slow: isChosen ? .failed(failure("plugin_timeout", version)) : .pass
            case .rejecting: isChosen ? .reject : .pass
            }
        }
    }
}

/// Combines the edits of both sides; a document wins against its deletion.
package final class SimulatedResolver: SimulatedPolicy, ConflictResolver, @unchecked Sendable {
    private let time: SimulatedTime
    /// Whether a slow version takes its time before it fails.
    private let timesOut: Bool

    package init(_ name: String, _ time: SimulatedTime, timesOut: Bool) {
        self.time = time
        self.timesOut = timesOut
        super.init(name)
    }

    package func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision {
        let (mood, version) = (mood, version)
        let isSlow = mood == .slow && timesOut
        try? await time.sleep(nanoseconds: isSlow ? 2_000_000_000 : 300_000)
        if mood == .failing || mood == .slow { return .failed(failure(isSlow ? "plugin_timeout" : "plugin_error", version)) }
        guard let local = conflict.local else { return .remote }
        guard let remote = conflict.remote else { return .local }
        let mine = Edits(local.body), theirs = Edits(remote.body)
        if mine.all.isSuperset(of: theirs.all), mine.all != theirs.all || local.revision > remote.revision { return .local }
        if theirs.all.isSuperset(of: mine.all) { return .remote }
        return .merged(Edits(mine.all.union(theirs.all), blob: max(mine.blob ?? "", theirs.blob ?? "")).body)
    }
}

/// Puts documents into the channel that peers have, except those that an edit hides. Depending on its mood it fails on some of the
/// documents that peers write, at once or late: peers keep these, and push them again. Of what is written here it fails only on documents
/// that no peer writes: what is in no channel for a while is taken from peers, together with edits of theirs that they have not pushed.
package final class SimulatedSyncFunction: SimulatedPolicy, SyncFunction, @unchecked Sendable {
    package static let channel = "a"
    private let time: SimulatedTime

    package init(_ time: SimulatedTime) {
        self.time = time
        super.init("sync")
    }

    package func assign(_ requests: [SyncRequest], _ context: PolicyContext) async -> [SyncVerdict] {
        let (mood, version) = (mood, version)
        try? await time.sleep(nanoseconds: mood == .slow ? 2_000_000_000 : 300_000)
        return requests.map { request in
            let id = request.document.id.text
            let isChosen = (!request.caller.isAdmin || id.hasPrefix("c")) && id.utf8.last.map { $0 % 2 == 0 } ?? false
            if isChosen, mood == .failing || mood == .slow { return .failed(failure(mood == .slow ? "plugin_timeout" : "plugin_error", version)) }
            return .accepted(SyncAssignment(channels: [isHidden(request.document) ? "b" : Self.channel]))
        }
    }
}

extension SimulatedSyncFunction {
    /// Peers see none of the documents whose id begins with h, not even those that they wrote themselves.
    private func isHidden(_ document: PolicyDocument) -> Bool { document.id.text.hasPrefix("h") || Edits(document.body).isHidden }
}

/// What the body of a simulated document holds: the edits made so far, and perhaps a blob.
package struct Edits {
    package var all: Set<String>
    /// The digest of the blob.
    package var blob: String?

    package init(_ all: Set<String> = [], blob: String? = nil) {
        self.all = all
        self.blob = blob.flatMap { $0.isEmpty ? nil : $0 }
    }

    package init(_ body: [UInt8]) {
        all = []
        guard let object = (try? JSONValue(parsing: body))?.asObject else { return }
        if case .array(let items)? = object["e"] { all = Set(items.compactMap(\.asString)) }
        blob = object["b"]?.asObject?["digest"]?.asString
    }

    /// Whether an edit hides the document from peers.
    package var isHidden: Bool { all.contains { $0.hasPrefix("hide") } }

    package var body: [UInt8] {
        var text = "{\"e\":[" + all.sorted().map { "\"\($0)\"" }.joined(separator: ",") + "]"
        if let blob { text += ",\"b\":{\"@type\":\"blob\",\"digest\":\"\(blob)\",\"content_type\":\"image/png\"}" }
        return Array((text + "}").utf8)
    }
}
