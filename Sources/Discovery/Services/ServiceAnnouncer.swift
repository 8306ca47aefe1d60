import Environment
import Logging
import NIOCore
import Synchronization

/// A listener to be announced.
package struct Announcement: Sendable, Equatable {
    package var name: String
    package var port: Int
    /// The index of the only interface to use, or 0 for all.
    package var interface: Int32
    package var text: ServiceText

    package init(name: String, port: Int, interface: Int32 = 0, text: ServiceText) {
        (self.name, self.port, self.interface, self.text) = (name, port, interface, text)
    }
}

/// Announces listeners through this machine's Avahi while it runs, and again whenever Avahi or the bus has been restarted.
package final class ServiceAnnouncer: Sendable {
    /// `announce_wait`: seconds between two attempts, and between two checks of what is to be announced.
    static let lookSeconds = 5

    /// `announce_again`: checks before a name that somebody else has is tried again; each attempt sends queries to the whole network.
    static let looksBeforeAnother = 12

    private struct Group {
        var announcement: Announcement
        var path: String
        /// Checks that are left until the next attempt; nil for an established announcement.
        var pause: Int?
    }

    private enum Event: Sendable {
        case signal(BusMessage)
        case look
        case closed
    }

    /// By name: why it is not announced; nil for one that is.
    private let failures = Mutex<[String: DiscoveryError?]>([:])
    private let group: any EventLoopGroup
    private let environment: Environment
    private let logger: Logger

    package init(group: any EventLoopGroup, environment: Environment, logger: Logger) {
        (self.group, self.environment, self.logger) = (group, environment, logger)
    }

    /// Why a listener is not announced; nil if it is, or is about to be.
    package func failure(of name: String) -> DiscoveryError? { failures.withLock { $0[name] ?? nil } }

    /// Whether it is announced under this name.
    package func isAnnounced(_ name: String) -> Bool { failures.withLock { $0[name].map { $0 == nil } ?? false } }

    /// Runs until the task is cancelled, which withdraws all announcements.
    ///
    /// - Parameter wanted: what is to be announced at the moment; called every few seconds.
    package func run(_ wanted: @escaping @Sendable () -> [Announcement]) async {
        while !Task.isCancelled {
            if !wanted().isEmpty {
                do throws(DiscoveryError) { try await announce(wanted) } catch {
                    for announcement in wanted() { note(announcement.name, error) }
                }
            }
            try? await environment.time.sleep(seconds: Self.lookSeconds)
        }
    }

    private func note(_ name: String, _ error: DiscoveryError?) {
        let before: DiscoveryError?? = failures.withLock { $0.updateValue(error, forKey: name) }
        if let before, before == error { return }
        if let error {
            logger.warning("\(name) is not announced on the local network: \(error); \(error.remedy)")
        } else {
            logger.info("announced on the local network as \(name)")
        }
    }

    /// Returns when there is nothing left to announce or the task is cancelled.
    private func announce(_ wanted: @escaping @Sendable () -> [Announcement]) async throws(DiscoveryError) {
        let bus = try await BusConnection.open(group: group)
        // The announcements end with the connection.
        defer { bus.close() }
        try await Avahi.listen(on: bus)
        let (events, continuation) = AsyncStream.makeStream(of: Event.self, bufferingPolicy: .bufferingOldest(BusConnection.mostSignals))
        let signals = Task {
            for await signal in bus.signals { continuation.yield(.signal(signal)) }
            continuation.yield(.closed)
        }
        let looks = Task { [environment] in
            while !Task.isCancelled {
                continuation.yield(.look)
                try? await environment.time.sleep(seconds: Self.lookSeconds)
            }
        }
        defer {
            signals.cancel()
            looks.cancel()
        }
        var groups: [Group] = []
        // In a cancelled task, the stream ends.
        for await event in events {
            switch event {
            case .closed: throw .closed
            case .look:
                let wanted = wanted()
                if wanted.isEmpty { return failures.withLock { $0 = [:] } }
                try await bring(&groups, to: wanted, bus)
            case .signal(let signal):
                switch (signal.interface, signal.member) {
                case (Avahi.group, "StateChanged"): judge(signal, &groups)
                // Avahi has stopped or started: earlier announcements are lost.
                case (_, "NameOwnerChanged"): throw .noAvahi
                default: break
                }
            }
        }
    }

    private func bring(_ groups: inout [Group], to wanted: [Announcement], _ bus: BusConnection) async throws(DiscoveryError) {
        for index in groups.indices { groups[index].pause = groups[index].pause.map { $0 - 1 } }
        for old in groups where !wanted.contains(old.announcement) || old.pause == 0 {
            _ = try await bus.call(Avahi.group(old.path, "Free"))
            groups.removeAll { $0.path == old.path }
            if !wanted.contains(where: { $0.name == old.announcement.name }) {
                failures.withLock { $0[old.announcement.name] = nil }
                logger.info("\(old.announcement.name) is no longer announced on the local network")
            }
        }
        for new in wanted where !groups.contains(where: { $0.announcement == new }) {
            do throws(DiscoveryError) { groups.append(Group(announcement: new, path: try await add(new, bus))) } catch .refused(let name, let message) {
                note(new.name, .refused(name: name, message: message))
            }
        }
    }

    private func add(_ new: Announcement, _ bus: BusConnection) async throws(DiscoveryError) -> String {
        guard let path = try await bus.call(Avahi.call("EntryGroupNew")).first?.text else { throw .malformed }
        do throws(DiscoveryError) {
            _ = try await bus.call(
                Avahi.group(
                    path, "AddService", "iiussssqaay",
                    [
                        .int32(new.interface > 0 ? new.interface : Avahi.any), .int32(Avahi.any), .number(0), .text(new.name), .text(FoundService.type), .text(""), .text(""),
                        .number(UInt64(new.port)), .array(new.text.strings.map { .array($0.map { .number(UInt64($0)) }) }),
                    ]))
            _ = try await bus.call(Avahi.group(path, "Commit"))
        } catch {
            _ = try await bus.call(Avahi.group(path, "Free"))
            throw error
        }
        return path
    }

    /// A name that turns out to be taken is tried again later.
    private func judge(_ signal: BusMessage, _ groups: inout [Group]) {
        guard let index = groups.firstIndex(where: { $0.path == signal.path }), let state = signal.body.first?.int32 else { return }
        let name = groups[index].announcement.name
        switch state {
        case Avahi.established: note(name, nil)
        case Avahi.collision:
            groups[index].pause = Self.looksBeforeAnother
            note(name, .refused(name: "org.freedesktop.Avahi.CollisionError", message: ""))
        case Avahi.failure:
            groups[index].pause = Self.looksBeforeAnother
            note(name, .refused(name: signal.body.last?.text ?? "", message: "avahi-daemon could not announce it"))
        default: break
        }
    }
}
